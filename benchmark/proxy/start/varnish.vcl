# Varnish: its own rules, and no look into its cache for what is passed on.
vcl 4.1;

backend origin {
  .host = "127.0.0.1";
  .port = "UPSTREAM";
}

sub vcl_recv {
  if (req.url ~ "^/(page|report)") {
    return (hash);
  }
  return (pass);
}
