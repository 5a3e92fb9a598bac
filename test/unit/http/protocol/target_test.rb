# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "support/http_cases"

# Request targets by form and method (RFC 9112 §3.2), and the Host that a request is for.
class HttpTargetTest < Minitest::Test
  extend NeverBlockTest::HttpCases

  def self.target(target, method: "GET", host: "a") = bare("#{method} #{target} HTTP/1.1", "Host: #{host}")

  # Origin form
  accepts "a path", target("/a/b.c"), form: :origin, path: "/a/b.c", query: "", authority: "", host: "a"
  accepts "a path and a query", target("/a?b=c&d=e"), path: "/a", query: "b=c&d=e", target: "/a?b=c&d=e"
  accepts "an empty query", target("/a?"), path: "/a", query: ""
  accepts "a query with question marks", target("/?a=?&?"), path: "/", query: "a=?&?"
  accepts "a query with slashes", target("/?/../a"), path: "/", query: "/../a"
  accepts "a path with two slashes in front",
    target("//evil.example/a"), form: :origin, path: "//evil.example/a", host: "a"
  accepts "dot segments, for the app to judge", target("/../../etc/passwd"), path: "/../../etc/passwd"
  accepts "escapes, not decoded", target("/%2e%2E/%00%0d%0a"), path: "/%2e%2E/%00%0d%0a"
  accepts "a half escape, for the app to judge", target("/100%"), path: "/100%"
  accepts "brackets, as browsers send them", target("/a?b[]=1&c[d]=2"), query: "b[]=1&c[d]=2"
  accepts "what browsers leave unescaped in queries", target("/a?b={|}^`\\'"), query: "b={|}^`\\'"
  accepts "quotes and angles, as curl sends them", target("/a?b=\"<>\""), query: "b=\"<>\""
  accepts "a colon in a path", target("/a:b@c"), path: "/a:b@c"
  refuses "a fragment", target("/a#b"), 400, /fragment/
  refuses "a fragment alone", target("#"), 400, /fragment/
  refuses "a raw UTF-8 byte in a path", target("/caf\u00e9"), 400, /above 127/
  refuses "a raw byte above 127 in a query", target("/?\xFF".b), 400, /above 127/
  refuses "a NUL in a path", target("/a\0b"), 400, /control character/
  refuses "a DEL in a path", target("/a\x7Fb"), 400, /control character/
  refuses "a tab in a path", target("/a\tb"), 400, /control character/
  refuses "a carriage return in a path", target("/a\rb"), 400, /carriage return/
  refuses "a path without its slash", target("a/b"), 400, /neither a path nor/
  refuses "a query alone", target("?a=b"), 400, /neither a path nor/
  refuses "a dot", target("."), 400, /neither a path nor/
  refuses "a backslash", target("\\a"), 400, /neither a path nor/

  # Asterisk form
  accepts "OPTIONS for the server", target("*", method: "OPTIONS"), form: :asterisk, path: "*", query: "", host: "a"
  accepts "OPTIONS for a path", target("/a", method: "OPTIONS"), form: :origin, path: "/a"
  accepts "OPTIONS for a proxy's server (§3.2.4)", target("http://a", method: "OPTIONS"), form: :absolute, path: ""
  refuses "an asterisk with GET", target("*"), 400, /without OPTIONS/
  refuses "an asterisk with a query", target("*?a", method: "OPTIONS"), 400, /neither a path nor/
  refuses "two asterisks", target("**", method: "OPTIONS"), 400, /neither a path nor/

  # Absolute form: §3.2.2
  accepts "a URI", target("http://a/b?c"), form: :absolute, path: "/b", query: "c", authority: "a", host: "a"
  accepts "a URI without a path", target("http://a"), path: "", query: "", host: "a"
  accepts "a URI with a query and no path", target("http://a?b"), path: "", query: "b"
  accepts "a scheme in capitals", target("HTTP://a/"), path: "/", host: "a"
  accepts "https", target("https://a/"), path: "/", host: "a"
  accepts "a URI within a URI", target("http://a/http://b/"), path: "/http://b/", host: "a"
  accepts "a URI with POST", target("http://a/b", method: "POST"), form: :absolute, path: "/b"
  accepts "the host in other letters", target("http://EXAMPLE.com/", host: "Example.COM"), host: "EXAMPLE.com"
  accepts "the usual port, in the URI", target("http://a:80/"), host: "a:80", server_name: "a", server_port: 80
  accepts "the usual port, in Host", target("http://a/", host: "a:80"), host: "a", server_port: 0
  accepts "an empty port", target("http://a:/", host: "a"), host: "a:", server_name: "a", server_port: 0
  accepts "the usual port of https", target("https://a:443/", host: "a"), host: "a:443", server_port: 443
  accepts "a port with zeros", target("http://a:0080/", host: "a"), server_port: 80
  accepts "another port, in both", target("http://a:81/", host: "A:81"), server_port: 81
  accepts "an IPv6 address in both", target("http://[2001:DB8::1]:8080/", host: "[2001:db8::1]:8080"),
    host: "[2001:DB8::1]:8080", server_name: "[2001:DB8::1]", server_port: 8080
  accepts "a URI in HTTP/1.0 without Host", bare("GET http://b/ HTTP/1.0"), host: "b", authority: "b"
  accepts "a URI in HTTP/1.0 with its Host", bare("GET http://b/ HTTP/1.0", "Host: b"), host: "b"
  refuses "a URI without Host in HTTP/1.1", bare("GET http://b/ HTTP/1.1"), 400, /no Host/
  refuses "another host than the URI's", target("http://b/"), 400, /other than the request target's/
  refuses "another port than the URI's", target("http://a:81/"), 400, /other than the request target's/
  refuses "https's port for http", target("http://a:443/"), 400, /other than the request target's/
  refuses "http's port for https", target("https://a:80/"), 400, /other than the request target's/
  refuses "another host in HTTP/1.0", bare("GET http://b/ HTTP/1.0", "Host: a"), 400, /other than the request target's/
  refuses "a longer host than the URI's", target("http://a/", host: "ab"), 400, /other than the request target's/
  refuses "user information (RFC 9110 §4.2.4)", target("http://me:secret@a/"), 400, /invalid host/
  refuses "an empty host (RFC 9110 §4.2.1)", target("http:///a"), 400, /invalid host/
  refuses "a port alone", target("http://:80/"), 400, /invalid host/
  refuses "a backslash for a slash", target("http://a\\b/"), 400, /invalid host/
  refuses "a port that is no number", target("http://a:x/"), 400, /invalid host/
  refuses "a port beyond 65535", target("http://a:65536/"), 400, /invalid host/
  %w[http:/a http:a http: http:// https:// ftp://a/ ws://a/ urn:a mailto:a@b javascript:1 a://b httpx://a/ a:80 a.example
    file:///].each do |uri|
    refuses "the target #{uri}", target(uri), 400, /neither a path nor|invalid host/
  end

  # Host: exactly one, not empty, valid (§3.2, RFC 9110 §7.2)
  %w[a a.b A.B.example. a_b x--y 127.0.0.1 localhost %41 a%2Db 999.999.999.999 !$&'()*+,;= [::] [::1] [2001:db8::7]
    [::ffff:192.0.2.1] [1:2:3:4:5:6:7:8]].each do |host|
    accepts "the host #{host}", target("/", host:), host:, server_name: host, server_port: 0
    accepts "the host #{host} with a port", target("/", host: "#{host}:8080"), server_name: host, server_port: 8080
  end
  accepts "a host with an empty port", target("/", host: "a:"), host: "a:", server_name: "a", server_port: 0
  accepts "the last port", target("/", host: "a:65535"), server_port: 65535
  accepts "blanks around a host", target("/", host: " \ta \t"), host: "a"
  accepts "a host of 255 bytes", target("/", host: "a" * 255), host: "a" * 255
  accepts "HTTP/1.0 with Host", bare("GET / HTTP/1.0", "Host: b:81"), host: "b:81", server_name: "b", server_port: 81
  accepts "HTTP/1.0 with an empty Host", bare("GET / HTTP/1.0", "Host:"), host: ""
  accepts "a name that ends in Host", target("/").sub("\r\n\r\n", "\r\nX-Host: b\r\n\r\n"), host: "a"
  refuses "no Host", bare("GET / HTTP/1.1"), 400, /no Host/
  refuses "no Host but other fields", bare("GET / HTTP/1.1", "X-Host: a", "Hosts: a"), 400, /no Host/
  refuses "an empty Host", target("/", host: ""), 400, /empty Host/
  refuses "a blank Host", target("/", host: " \t "), 400, /empty Host/
  refuses "two Hosts", head("Host: b"), 400, /more than one Host/
  refuses "the same Host twice", head("Host: a"), 400, /more than one Host/
  refuses "two Hosts in other letters", head("hOST: a"), 400, /more than one Host/
  refuses "an empty second Host", head("Host:"), 400, /more than one Host/
  refuses "two Hosts in HTTP/1.0", bare("GET / HTTP/1.0", "Host: a", "Host: a"), 400, /more than one Host/
  refuses "an invalid Host in HTTP/1.0", bare("GET / HTTP/1.0", "Host: a/b"), 400, /invalid Host/
  ["a b", "a, b", "a/b", "a?b", "a#b", "a@b", "http://a", ":80", "a:b", "a:80:80", "a:-1", "a:+80", "a:8 0", "a:65536",
    "a:99999999999999999999", "a\\b", "a<b>", "a\"", "{a}", "a|b", "a^b", "`a`", "a\tb", "%", "a%4", "a%zz", "caf\u00e9",
    "[::1", "::1", "[]", "[]:80", "[a]", "[::1]a", "[::1]:x", "[::1%25eth0]", "[fe80::1%eth0]", "[v1.a]", "[1:2:3]",
    "[::1::2]", "[12345::]", "[192.0.2.1]", "[#{":" * 60}]", "a[::1]"].each do |host|
    refuses "the host #{host.inspect}", target("/", host:), 400, /invalid Host/
  end
end
