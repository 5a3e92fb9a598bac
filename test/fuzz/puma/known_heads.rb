# frozen_string_literal: true

module NeverBlockPumaFuzz
  # Known differences in what is read as a request's head, with an example and the reason for each. `rake fuzz:puma` knows
  # them by this table, and test/unit/http/protocol/puma_test.rb compares both parsers in one process.
  module KnownHeads
    extend self

    # A request of HTTP/1.1 with Host.
    # @return [String]
    def head(*lines, request: "GET / HTTP/1.1") = [request, "Host: a", *lines, "", ""].join("\r\n").b

    # @return [String]
    def bare(*lines) = [*lines, "", ""].join("\r\n").b

    # Whether the key may come from a name with an underscore.
    # @return [Boolean]
    def underscored?(key, bytes)
      name = Regexp.new("^#{key.delete_prefix("HTTP_").gsub("_", "[-_]")}:".b, Regexp::IGNORECASE)
      bytes.scan(name).any? { |found| found.include?("_") }
    end

    # Heads that we refuse and Puma accepts: our status, our reason, an example, and why.
    STRICTER = [
      [400, "no Host", bare("GET / HTTP/1.1"),
        "RFC 9112 §3.2 demands 400: without it two servers in a row can disagree about the host of a request"],
      [400, "an empty Host", bare("GET / HTTP/1.1", "Host:"), "it names no host, which is the same"],
      [400, "more than one Host", head("Host: b"),
        "RFC 9112 §3.2 demands 400: the proxy routes by the one, the app (Puma joins them) sees the other"],
      [400, "an invalid Host", bare("GET / HTTP/1.1", "Host: a/b"),
        "RFC 9112 §3.2 demands 400: apps build links, and cache keys, from it"],
      [400, "a Host other than the request target's", head(request: "GET http://b/ HTTP/1.1"),
        "the target counts (RFC 9112 §3.2.2), and Puma believes the field: a client that sends both wants the difference"],
      [400, "a request target with an invalid host", head(request: "GET http://a@b/ HTTP/1.1"),
        "RFC 9110 §4.2.4: user information there is an error, since it disguises the host"],
      [400, "a request target that is neither a path nor an http URI", head(request: "GET gopher://a/ HTTP/1.1"),
        "RFC 9112 §3.2: one of four forms; of another scheme we are no origin (RFC 9110 §7.4)"],
      [400, "the target * without OPTIONS", head(request: "GET * HTTP/1.1"), "RFC 9112 §3.2.4 knows it for OPTIONS alone; as a path it has no slash"],
      [400, "a fragment in the request target", head(request: "GET /#a HTTP/1.1"),
        "RFC 9112 §3.2 has none: a proxy that keeps it in the path and a server that cuts it off see two paths"],
      [400, "a byte above 127 in the request target: it must be percent-encoded", head(request: "GET /\xFF HTTP/1.1".b),
        "RFC 3986 §2: each proxy may decode the character differently"],
      [400, "a carriage return without line feed", "GET / HTTP/1.1\rHost: a\r\n\r\n".b,
        "RFC 9112 §2.2; Puma waits for more here, or raises NoMethodError, which is answered with 500"],
      [400, "an empty line in place of a request line", "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n".b, "RFC 9112 §2.2 lets one pass; Puma raises NoMethodError"],
      [505, "an HTTP version other than 1.1 and 1.0", head(request: "GET / HTTP/2.0"),
        "RFC 9110 §15.6.6: another major version means another framing"],
      [400, "no HTTP version after the request target", head(request: "GET / HTTP/11.1"), "RFC 9112 §2.3: one digit, a point, one digit"],
      [400, "bytes after the HTTP version", head(request: "GET / HTTP/1.11"), "the same"],
      [417, "an expectation other than 100-continue", head("Expect: tea"), "RFC 9110 §10.1.1: it must not be passed over as if it were met"],
      [400, "both Transfer-Encoding and Content-Length", head("Content-Length: 5", "Transfer-Encoding: chunked"),
        "RFC 9112 §6.1 allows to refuse it; Puma lets chunked win, and a proxy in front of it may not: request smuggling"],
      [400, "Transfer-Encoding in HTTP/1.0", bare("POST / HTTP/1.0", "Transfer-Encoding: chunked"),
        "RFC 9112 §6.1: its framing is faulty, whatever it means"],
      [400, "an empty transfer coding", head("Transfer-Encoding: chunked,"),
        "a list may have an empty element (RFC 9110 §5.6.1), and no client sends one here; a server that does not see chunked in it sees another request's start"],
      [501, "a transfer coding other than chunked", head("Transfer-Encoding: gzip, chunked"), "Puma gives the app the coded bytes as if they were plain"]
    ].freeze

    # Heads that Puma refuses and we accept: a pattern, an example, and why.
    LOOSER = {
      "an empty line before the request" => [/\A\r\n/, "\r\n".b + head, "RFC 9112 §2.2: a server should skip one, since old clients send it behind a body"],
      "a method of other letters" => [/\A(?:\r\n)?[^ ]*[^A-Z0-9 ]/n, head(request: "Get / HTTP/1.1"), "RFC 9110 §9.1: a method is any token, and letters in lower case make another one"],
      "an unregistered method" => [/\A(?!(?:GET|POST|PUT|OPTIONS|DELETE) )/n, head(request: "BREW / HTTP/1.1"),
        "RFC 9110 §9.1: whether it is implemented is the app's to say"],
      "what a URI should have encoded" => [/\A[^\r]*["<>\[\]\\^`{|}%]/n, head(request: "GET /?q=<\"> HTTP/1.1"),
        "curl sends them as they are typed; no reader takes them for an end of anything"],
      "what follows the head" => [/\r\n\r\n./mn, head("Transfer-Encoding: chunked", request: "POST / HTTP/1.1") + "what\r\n",
        "Puma reads head and body in one; ours refuses these chunks too, in the next step"]
    }.freeze

    # Heads that we refuse at their end, and Puma at once.
    LATER = "a fault in a field's line is told when the head is complete, so that the answer does not depend on how the bytes were cut"

    # Heads that both accept, with different env: the key, whether two values are so (with the key and the bytes), an
    # example, and why.
    ENV_DIFFERENCES = {
      "two Cookie fields" => [/\AHTTP_COOKIE\z/, ->(ours, puma, *) { puma.include?(", ") && ours.split(/[,;] /) == puma.split(/[,;] /) }, head("Cookie: a=1", "Cookie: a=2"),
        "a comma is part of a cookie's value for many readers; RFC 9113 §8.2.3 says how they are joined"],
      "an underscore in a field's name" => [/\AHTTP_/, ->(ours, _puma, key, bytes) { ours.nil? && underscored?(key, bytes) }, head("X_A: 1"),
        "in the env it could not be told from X-A, which a proxy may have set (CVE-2024-45614 was about which of the two wins)"],
      "the case of a host that is there twice" => [/\A(HTTP_HOST|SERVER_NAME)\z/, ->(ours, puma, *) { ours&.casecmp?(puma) }, bare("GET http://A/ HTTP/1.1", "Host: a"),
        "RFC 9112 §3.2.2: the target's counts"],
      "a port that is there twice" => [/\AHTTP_HOST\z/, ->(ours, puma, *) { ours == puma.sub(/:0*(80)?\z/, "") }, bare("GET http://a/ HTTP/1.1", "Host: a:080"),
        "RFC 9112 §3.2.2: the target's counts, and 80 is the same as none"],
      "zeros before a port" => [/\ASERVER_PORT\z/, ->(ours, puma, *) { puma.empty? || ours.to_i == puma.to_i || puma.to_i.zero? }, bare("GET / HTTP/1.1", "Host: a:0080"),
        "the env's is a number as numbers are written, and 80 where there is none"],
      "no path in an absolute target" => [/\APATH_INFO\z/, ->(ours, puma, *) { [ours, puma] == ["/", ""] }, head(request: "GET http://a HTTP/1.1"),
        "RFC 9110 §4.2.3: the same as /, and Rack wants one of PATH_INFO and SCRIPT_NAME to be there"],
      "a Proxy field" => [/\AHTTP_PROXY\z/, ->(ours, *) { ours.nil? }, head("Proxy: http://evil"), "httpoxy, CVE-2016-5385: CGI programs take it for their proxy"],
      "the length of a body in chunks" => [/\ACONTENT_LENGTH\z/, ->(ours, puma, *) { ours == "0" && puma.nil? }, head("Transfer-Encoding: chunked", request: "POST / HTTP/1.1"),
        "both set the decoded length, and only our server has read a body here"],
      "a Version field" => [/\AHTTP_VERSION\z/, ->(ours, *) { ours.nil? }, head("Version: 9"), "many an app reads the protocol's version there"]
    }.freeze

    # Keys that only one of the two sets.
    OURS_ALONE = %w[GATEWAY_INTERFACE SERVER_SOFTWARE].freeze
    PUMA_ALONE = %w[REQUEST_PATH].freeze
  end
end
