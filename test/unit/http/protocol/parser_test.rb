# frozen_string_literal: true

require "test_helper"
require "neverblock/server"
require "support/http_cases"

# The request line and the shape of a head. The pieces in which a head arrives, and the bytes after it, make no
# difference.
class HttpParserTest < Minitest::Test
  extend NeverBlockTest::HttpCases

  accepts "the least of HTTP/1.1",
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n", method: "GET", target: "/", path: "/", query: "",
    minor: 1, host: "a", fields: [["Host", "a"]], content_length: nil, chunked: false, keep_alive: true,
    expect_continue: false, upgrade: false
  accepts "the least of HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", minor: 0, host: "", fields: [], keep_alive: false
  accepts "an empty line before the request line (RFC 9112 §2.2)", "\r\n#{head}", method: "GET", path: "/"
  refuses "two empty lines before the request line", "\r\n\r\n#{head}", 400, /empty line/
  refuses "a lone line feed before the request line", "\n#{head}", 400, /line feed/
  refuses "a lone carriage return before the request line", "\r#{head}", 400, /carriage return/
  refuses "a blank before the request line", " #{head}", 400, /no method/
  waits "for the first byte", ""
  waits "after half an empty line", "\r"
  waits "after an empty line", "\r\n"
  waits "for the end of the method", "GE"
  waits "for the end of the target", "GET /abc"
  waits "for the end of the version", "GET / HTTP/1."
  waits "for the line feed of the request line", "GET / HTTP/1.1\r"
  waits "for fields", "GET / HTTP/1.1\r\n"
  waits "for the end of a name", "GET / HTTP/1.1\r\nHos"
  waits "for the end of a value", "GET / HTTP/1.1\r\nHost: a"
  waits "for the line feed of a field", "GET / HTTP/1.1\r\nHost: a\r"
  waits "for the empty line", "GET / HTTP/1.1\r\nHost: a\r\n"
  waits "for the last line feed", "GET / HTTP/1.1\r\nHost: a\r\n\r"
  waits "before it calls a field line bad", "GET / HTTP/1.1\r\n: a\r\n"

  # Methods: RFC 9110 §9.1
  %w[GET HEAD POST PUT DELETE PATCH OPTIONS TRACE].each_with_index do |method, index|
    accepts "the method #{method}", head(request: "#{method} / HTTP/1.1"), method:, method_id: index + 1
  end
  %w[PROPFIND get Get GETS GE G M-SEARCH !#$%&'*+-.^_`|~09 UPDATEREDIRECTREF].each do |method|
    accepts "the method #{method.inspect}", head(request: "#{method} / HTTP/1.1"), method:, method_id: 0
  end
  accepts "a method of 32 bytes", head(request: "#{"M" * 32} / HTTP/1.1"), method: "M" * 32
  refuses "a method of 33 bytes", head(request: "#{"M" * 33} / HTTP/1.1"), 501, /method of more than 32/
  refuses "an endless method", "M" * 9000, 501, /method of more than 32/
  refuses "CONNECT, we are no proxy", head(request: "CONNECT a:443 HTTP/1.1"), 501, /CONNECT/
  refuses "CONNECT to a path", head(request: "CONNECT / HTTP/1.1"), 400, /host:port/
  refuses "CONNECT without a port", head(request: "CONNECT a HTTP/1.1"), 400, /host:port/
  refuses "CONNECT with an empty port", head(request: "CONNECT a: HTTP/1.1"), 400, /host:port/
  refuses "CONNECT with user information", head(request: "CONNECT me@a:1 HTTP/1.1"), 400, /host:port/
  refuses "CONNECT to a URI", head(request: "CONNECT http://a:1/ HTTP/1.1"), 400, /host:port/
  ["G@T", "GET:", "(GET)", "G\"T", "G/T", "GET,", "G[T", "G{T}", "G\\T"].each do |method|
    refuses "the method #{method}",
      head(request: "#{method} / HTTP/1.1"), 400, /no space after the method|begins with no method/
  end
  refuses "a byte above 127 in the method", head(request: "G\xC3\x89T / HTTP/1.1"), 400, /no space after the method/
  refuses "a tab after the method", head(request: "GET\t/ HTTP/1.1"), 400, /no space after the method/
  refuses "a method alone", "GET\r\n\r\n", 400, /no space after the method/

  # Between the parts: one space each (RFC 9112 §3: a lenient reading is where smuggling starts)
  refuses "two spaces after the method", head(request: "GET  / HTTP/1.1"), 400, /no request target/
  refuses "two spaces before the version", head(request: "GET /  HTTP/1.1"), 400, /no HTTP version/
  refuses "a tab before the version", head(request: "GET /\tHTTP/1.1"), 400, /control character in the request target/
  refuses "a space in the target", head(request: "GET /a b HTTP/1.1"), 400, /no HTTP version/
  refuses "a space after the version", head(request: "GET / HTTP/1.1 "), 400, /after the HTTP version/
  refuses "a tab after the version", head(request: "GET / HTTP/1.1\t"), 400, /after the HTTP version/
  refuses "a word after the version", head(request: "GET / HTTP/1.1 HTTP/1.0"), 400, /after the HTTP version/
  refuses "no target", head(request: "GET HTTP/1.1"), 400, /HTTP\/0.9/
  refuses "no target but its space", head(request: "GET  HTTP/1.1"), 400, /no request target/

  # Versions: RFC 9112 §2.3
  refuses "HTTP/0.9", "GET /\r\n", 400, /HTTP\/0.9/
  refuses "HTTP/0.9 with a space", "GET / \r\n", 400, /no HTTP version/
  %w[2.0 2.1 0.9 3.0 0.0 9.9].each do |version|
    refuses "version #{version}", "GET / HTTP/#{version}\r\n", 505, /other than 1.1 and 1.0/
  end
  %w[1.2 1.9].each { |version| accepts "version #{version}, as 1.1 (RFC 9110 §2.5)", head(request: "GET / HTTP/#{version}"), minor: 1 }
  refuses "HTTP/2's preface (RFC 9113 §3.4)", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, /other than 1.1/
  %w[HTTP/1 HTTP/2 HTTP/1. HTTP/.1 HTTP/11 HTTP/1,1 HTTP/x.1 HTTP/1.x http/1.1 Http/1.1 HTTPS/1.1 HTTP HTTP-1.1
    HTCPCP/1.0 ICY/1.1].each do |version|
    refuses "the version #{version}", head(request: "GET / #{version}"), 400, /no HTTP version/
  end
  %w[HTTP/1.10 HTTP/1.1.1 HTTP/1.11 HTTP/1.1; HTTP/1.1#].each do |version|
    refuses "the version #{version}", head(request: "GET / #{version}"), 400, /after the HTTP version/
  end
  refuses "HTTP/01.1", head(request: "GET / HTTP/01.1"), 400, /no HTTP version/
  refuses "a NUL in the version", head(request: "GET / HTTP/1\0.1"), 400, /control character/

  # Line ends: CRLF alone (RFC 9112 §2.2 allows a lone LF; not every proxy accepts one)
  refuses "line feeds alone (puma CVE-2021-41136)", head.gsub("\r\n", "\n"), 400, /line feed/
  refuses "a line feed after the request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400, /line feed/
  refuses "a line feed after a field (node CVE-2022-32214)", "GET / HTTP/1.1\r\nHost: a\nA: b\r\n\r\n", 400, /line feed/
  refuses "a line feed as the empty line", "GET / HTTP/1.1\r\nHost: a\r\n\n", 400, /line feed/
  refuses "carriage returns alone", head.gsub("\r\n", "\r"), 400, /carriage return/
  refuses "a carriage return after the request line", "GET / HTTP/1.1\rHost: a\r\n\r\n", 400, /carriage return/
  refuses "two carriage returns", "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", 400, /carriage return/
  refuses "a half empty line (node CVE-2025-23167)", "GET / HTTP/1.1\r\nHost: a\r\n\rX", 400, /carriage return/
  refuses "a line feed before a carriage return", "GET / HTTP/1.1\n\rHost: a\n\r\n\r", 400, /line feed/
  refuses "a line feed in the target", "GET /a\nb HTTP/1.1\r\nHost: a\r\n\r\n", 400, /line feed/

  # Other protocols
  refuses "a TLS hello", "\x16\x03\x01\x02\x00\x01", 400, /TLS/
  refuses "the byte of TLS later", "GET / HTTP/1.1\r\nA: \x16\r\n\r\n", 400, /a control character/
  refuses "SOCKS", "\x05\x01\x00", 400, /control character/
  refuses "zeros", "\0\0\0\0", 400, /control character/
  refuses "SSH", "SSH-2.0-OpenSSH_9.2\r\n", 400, /no space after the method/
  refuses "an answer in place of a request", "HTTP/1.1 200 OK\r\n\r\n", 400, /no space after the method/
  refuses "the PROXY protocol, which is not enabled", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", 400, /no HTTP version/

  # The following bytes are the next request, or a body (raptor took all of them for the body)
  accepts "a request with another behind it", head, rest: head(request: "GET /b HTTP/1.1"), path: "/"
  accepts "a request with a body behind it", head("Content-Length: 3"), rest: "abc", content_length: 3
  accepts "a request with empty lines behind it", head, rest: "\r\n\r\n\r\n", path: "/"

  def test_pipelined_requests_come_out_one_by_one
    stream = "/a /b /c".split.map { |path| self.class.head("X: #{path}", request: "GET #{path} HTTP/1.1") }.join
    paths = []
    until stream.empty?
      found = parse(stream)
      paths << found[:path]
      assert_equal found[:path], found[:fields].last.last
      stream = stream.byteslice(found[:head_length]..)
    end
    assert_equal %w[/a /b /c], paths
  end

  def test_every_byte_in_a_method_and_a_target_is_taken_or_refused
    (0..255).each do |byte|
      char = byte.chr(Encoding::BINARY)
      method = parse("G#{char}T / HTTP/1.1\r\nHost: a\r\n\r\n".b)
      target = parse("GET /#{char}x HTTP/1.1\r\nHost: a\r\n\r\n".b)
      taken = [method, target].map { |outcome| outcome.is_a?(Hash) }
      assert_equal [char.match?(/[!#$%&'*+\-.^_`|~0-9A-Za-z]/n), char.match?(/[!-~&&[^#]]/n)], taken, char.inspect
      assert_equal ["G#{char}T".b, "/#{char}x".b], [method[:method], target[:target]] if taken.all?
    end
  end

  def test_known_names_have_their_keys_in_any_case
    names = NeverBlock::Server::Head.known_names
    assert_operator names.size, :>=, 64
    names.each do |name, key|
      [name, name.upcase, name.split("-").map(&:capitalize).join("-")].each do |written|
        value = {"content-length" => "1", "transfer-encoding" => "chunked", "expect" => "100-continue"}.fetch(name, "a")
        lines = (name == "host") ? [] : ["Host: a"]
        found = parse(self.class.bare("POST / HTTP/1.1", *lines, "#{written}: #{value}"))
        assert_equal [written, value], found[:fields].last, found
        assert_equal key, found[:keys].last
      end
      usual = name.upcase.tr("-", "_")
      assert_includes [usual, "HTTP_#{usual}"], key
    end
    assert_equal %w[CONTENT_LENGTH CONTENT_TYPE], names.values.grep_v(/\AHTTP_/).sort
  end

  slow "thousands of heads"
  def test_names_that_are_nearly_known_are_not
    NeverBlock::Server::Head.known_names.each_key do |name|
      bits = name.bytes.each_index.flat_map do |place|
        [1, 2, 4, 8, 16, 64].map { |bit| name.dup.tap { |other| other.setbyte(place, other.getbyte(place) ^ bit) } }
      end
      ["#{name}s", "s#{name}", name.chop, name[1..], *bits].grep(/\A[!#$%&'*+\-.^_`|~0-9A-Za-z]+\z/).each do |other|
        next if NeverBlock::Server::Head.known_names.key?(other.downcase)
        found = parse(self.class.bare("GET / HTTP/1.0", "#{other}: 1"))
        assert_equal [nil], found[:keys], other
      end
    end
  end
end
