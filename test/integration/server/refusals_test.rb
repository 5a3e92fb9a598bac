# frozen_string_literal: true

require "test_helper"
require "support/served"

# Requests that two servers in a row might interpret differently, against the running server: it refuses, closes, and
# runs nothing that follows. Each is sent with a request hidden behind it, behind a good one in the same write, and byte
# by byte. The reasons are in docs/server.md; the parser's own cases are in test/unit/http/protocol/.
class ServerRefusalsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  # The counter and the log's name for a refusal.
  KINDS = {400 => :bad_request, 413 => :content_too_large, 414 => :uri_too_long, 417 => :expectation_failed, 431 => :header_fields_too_large,
           501 => :not_implemented, 505 => :http_version_not_supported}.freeze
  HIDDEN = "GET /hidden HTTP/1.1\r\nHost: example.org\r\n\r\n"

  # @param unix [Boolean] whether it is short enough to be sent byte by byte
  def self.refuses(name, status, bytes, unix: true)
    bytes = bytes.b
    slug = name.tr(" ", "_")
    define_method(:"test_#{slug}") { assert_refused(status, connect_to(false) << bytes + HIDDEN) }
    define_method(:"test_after_a_good_one_#{slug}") { assert_refused(status, connect_to(false) << get("/good") + bytes + HIDDEN, good: 1) }
    define_method(:"test_byte_by_byte_#{slug}") { assert_refused(status, send_bytes(connect_to(true), bytes)) } if unix
  end

  # A head of HTTP/1.1 with Host.
  def self.head(*lines, line: "POST / HTTP/1.1") = [line, "Host: example.org", *lines, "", ""].join("\r\n").b

  def self.bare(*lines) = [*lines, "", ""].join("\r\n").b

  # A chunked body in a good head.
  def self.chunked(body) = head("Transfer-Encoding: chunked") + body.b

  # ---- where the body ends: RFC 9112 §6 ----

  refuses "Transfer-Encoding and Content-Length", 400, head("Content-Length: 4", "Transfer-Encoding: chunked") + "0\r\n\r\n"
  refuses "Content-Length behind Transfer-Encoding", 400, head("Transfer-Encoding: chunked", "Content-Length: 0") + "0\r\n\r\n"
  refuses "both with a coding that is none", 400, head("Transfer-Encoding: x", "Content-Length: 0")
  refuses "two Content-Lengths", 400, head("Content-Length: 0", "Content-Length: 5")
  refuses "the same Content-Length twice", 400, head("Content-Length: 1", "Content-Length: 1") + "a"
  refuses "a list of Content-Lengths", 400, head("Content-Length: 1, 1") + "a"
  refuses "an empty Content-Length (CVE-2023-40175)", 400, head("Content-Length:")
  refuses "a blank Content-Length", 400, head("Content-Length: \t ")
  refuses "a Content-Length with a plus (CVE-2023-38697)", 400, head("Content-Length: +1") + "a"
  refuses "a negative Content-Length", 400, head("Content-Length: -1")
  refuses "a hexadecimal Content-Length", 400, head("Content-Length: 0x1") + "a"
  refuses "a Content-Length with an underscore", 400, head("Content-Length: 1_0") + "a" * 10
  refuses "a Content-Length with a blank inside", 400, head("Content-Length: 1 0") + "a" * 10
  refuses "a Content-Length with a fraction", 400, head("Content-Length: 1.0") + "a"
  refuses "a quoted Content-Length", 400, head('Content-Length: "1"') + "a"
  refuses "a Content-Length beyond 64 bits", 413, head("Content-Length: 18446744073709551617") + "a"
  refuses "a Content-Length beyond the limit", 413, head("Content-Length: 1073741825") + "a"
  refuses "chunked twice in one field", 400, head("Transfer-Encoding: chunked, chunked") + "0\r\n\r\n"
  refuses "chunked twice in two fields", 400, head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + "0\r\n\r\n"
  refuses "a coding after chunked (CVE-2022-24790)", 400, head("Transfer-Encoding: chunked, identity") + "0\r\n\r\n"
  refuses "a coding before chunked", 501, head("Transfer-Encoding: gzip, chunked") + "0\r\n\r\n"
  refuses "another coding", 501, head("Transfer-Encoding: gzip")
  refuses "identity", 501, head("Transfer-Encoding: identity")
  refuses "an empty coding", 400, head("Transfer-Encoding:")
  refuses "an empty element beside chunked", 400, head("Transfer-Encoding: , chunked") + "0\r\n\r\n"
  refuses "chunked with a parameter", 400, head("Transfer-Encoding: chunked;a=b") + "0\r\n\r\n"
  refuses "chunked with a byte behind it", 400, head("Transfer-Encoding: chunked\x0b") + "0\r\n\r\n"
  refuses "chunked in quotes", 400, head('Transfer-Encoding: "chunked"') + "0\r\n\r\n"
  refuses "xchunked", 501, head("Transfer-Encoding: xchunked") + "0\r\n\r\n"
  refuses "Transfer-Encoding in HTTP/1.0", 400, head("Transfer-Encoding: chunked", line: "POST / HTTP/1.0") + "0\r\n\r\n"
  refuses "Transfer-Encoding with a blank before the colon", 400, head("Transfer-Encoding : chunked") + "0\r\n\r\n"
  refuses "Content-Length with a blank before the colon (CVE-2021-22959)", 400, head("Content-Length : 5")
  refuses "Content-Length behind a blank", 400, head(" Content-Length: 5")
  refuses "Content-Length in a folded field (CVE-2022-32215)", 400, head("X: a", " Content-Length: 5")

  # ---- chunks: RFC 9112 §7.1 ----

  refuses "a chunk size that is no number", 400, chunked("g\r\n")
  refuses "no chunk size", 400, chunked("\r\n")
  refuses "a chunk size with 0x (CVE-2023-38697)", 400, chunked("0x5\r\nabcde\r\n0\r\n\r\n")
  refuses "a chunk size with a plus", 400, chunked("+5\r\nabcde\r\n0\r\n\r\n")
  refuses "a negative chunk size", 400, chunked("-1\r\n")
  refuses "a chunk size with an underscore", 400, chunked("1_0\r\n")
  refuses "a blank before a chunk size", 400, chunked(" 5\r\nabcde\r\n0\r\n\r\n")
  refuses "a blank after a chunk size", 400, chunked("5 \r\nabcde\r\n0\r\n\r\n")
  refuses "a chunk size beyond 64 bits", 400, chunked("10000000000000005\r\nabcde\r\n0\r\n\r\n")
  refuses "a chunk size beyond 63 bits", 413, chunked("ffffffffffffffff\r\nabcde\r\n0\r\n\r\n")
  refuses "a chunk size line that ends with a line feed", 400, chunked("5\nabcde\r\n0\r\n\r\n")
  refuses "a chunk size line that ends with a carriage return", 400, chunked("5\rabcde\r\n0\r\n\r\n")
  refuses "a chunk longer than its size", 400, chunked("5\r\nabcdef\r\n0\r\n\r\n")
  refuses "a chunk shorter than its size", 400, chunked("5\r\nabc\r\n0\r\n\r\n")
  refuses "a chunk that ends with a line feed", 400, chunked("5\r\nabcde\n0\r\n\r\n")
  refuses "a chunk that ends with two other bytes", 400, chunked("5\r\nabcdeXX0\r\n\r\n")
  refuses "an extension with a line feed (CVE-2025-22871, CVE-2025-55315)", 400, chunked("5;a\nabcde\r\n0\r\n\r\n")
  refuses "an extension with a carriage return", 400, chunked("5;a\rb\r\nabcde\r\n0\r\n\r\n")
  refuses "an extension with NUL", 400, chunked("5;a=\0\r\nabcde\r\n0\r\n\r\n")
  refuses "an extension of 5 KB (CVE-2024-21647)", 413, chunked("5;#{"a" * 5_000}\r\nabcde\r\n0\r\n\r\n"), unix: false
  refuses "extensions of 17 KB in all (CVE-2024-22019)", 413, chunked("1;#{"a" * 1_000}\r\na\r\n" * 17), unix: false
  refuses "a trailer without a colon", 400, chunked("0\r\nabc\r\n\r\n")
  refuses "a trailer with a blank in its name", 400, chunked("0\r\na b: c\r\n\r\n")
  refuses "a folded trailer", 400, chunked("0\r\na: b\r\n c\r\n\r\n")
  refuses "a trailer with a line feed", 400, chunked("0\r\na: b\nc: d\r\n\r\n")
  refuses "trailers of 17 KB", 413, chunked("0\r\n#{"a: #{"b" * 1_000}\r\n" * 17}\r\n"), unix: false
  refuses "an end with a line feed", 400, chunked("0\r\n\n")

  # ---- lines: RFC 9112 §2.2 and §5 ----

  refuses "a line feed after the request line (CVE-2021-41136)", 400, "GET / HTTP/1.1\nHost: a\r\n\r\n"
  refuses "a line feed after a field", 400, "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"
  refuses "line feeds at the end", 400, "GET / HTTP/1.1\r\nHost: a\r\n\n"
  refuses "a lone carriage return in a value (CVE-2025-23167)", 400, head("X: a\rGET /hidden HTTP/1.1")
  refuses "a lone carriage return after the request line", 400, "GET / HTTP/1.1\rHost: a\r\n\r\n"
  refuses "two empty lines in front", 400, "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
  refuses "a line feed in front", 400, "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"
  refuses "a blank in front", 400, " GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  refuses "a blank before the first field", 400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"
  refuses "a folded field", 400, head("X: a", " b")
  refuses "a field folded with a tab", 400, head("X: a", "\tb")
  refuses "a blank before a colon", 400, head("X : a")
  refuses "a tab before a colon", 400, head("X\t: a")
  refuses "a field without a colon", 400, head("abc")
  refuses "a field without a name", 400, head(": a")
  refuses "a name with a blank", 400, head("X Y: a")
  refuses "a name with NUL", 400, head("X\0: a")
  refuses "a name with a byte above 127", 400, head("X\xFF: a")
  refuses "a name with a parenthesis", 400, head("X(: a")
  refuses "a value with NUL", 400, head("X: a\0b")
  refuses "a value with a control character", 400, head("X: a\x01b")
  refuses "a value with DEL", 400, head("X: a\x7Fb")
  refuses "a value with an escape", 400, head("X: \e[2J")

  # ---- request lines ----

  refuses "HTTP/0.9", 400, "GET /\r\n"
  refuses "no version", 400, bare("GET / ", "Host: a")
  refuses "HTTP/2.0", 505, bare("GET / HTTP/2.0", "Host: a")
  refuses "HTTP/0.9 by its name", 505, bare("GET / HTTP/0.9", "Host: a")
  refuses "the preface of HTTP/2", 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
  refuses "http in small letters", 400, bare("GET / http/1.1", "Host: a")
  refuses "a version with three digits", 400, bare("GET / HTTP/1.10", "Host: a")
  refuses "a version with a blank behind it", 400, bare("GET / HTTP/1.1 ", "Host: a")
  refuses "two blanks after the method", 400, bare("GET  / HTTP/1.1", "Host: a")
  refuses "two blanks before the version", 400, bare("GET /  HTTP/1.1", "Host: a")
  refuses "a tab after the method", 400, bare("GET\t/ HTTP/1.1", "Host: a")
  refuses "a method with a bracket", 400, bare("GET[] / HTTP/1.1", "Host: a")
  refuses "a method of 33 bytes", 501, bare("#{"A" * 33} / HTTP/1.1", "Host: a")
  refuses "CONNECT", 501, bare("CONNECT example.org:443 HTTP/1.1", "Host: example.org:443")
  refuses "CONNECT to a path", 400, bare("CONNECT / HTTP/1.1", "Host: a")
  refuses "a target without a slash", 400, head(line: "GET a HTTP/1.1")
  refuses "a target with a fragment", 400, head(line: "GET /#a HTTP/1.1")
  refuses "a target with a byte above 127", 400, head(line: "GET /\xC3\xA9 HTTP/1.1")
  refuses "a target with NUL", 400, head(line: "GET /\0 HTTP/1.1")
  refuses "an asterisk without OPTIONS", 400, head(line: "GET * HTTP/1.1")
  refuses "a target of another scheme", 400, head(line: "GET ftp://example.org/ HTTP/1.1")
  refuses "a target with a name and password", 400, head(line: "GET http://a:b@example.org/ HTTP/1.1")
  refuses "TLS", 400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"

  # ---- Host: RFC 9112 §3.2 ----

  refuses "no Host", 400, bare("GET / HTTP/1.1")
  refuses "two Hosts", 400, bare("GET / HTTP/1.1", "Host: a", "Host: a")
  refuses "two Hosts in HTTP/1.0", 400, bare("GET / HTTP/1.0", "Host: a", "Host: b")
  refuses "an empty Host", 400, bare("GET / HTTP/1.1", "Host:")
  refuses "a Host with a path", 400, bare("GET / HTTP/1.1", "Host: a/b")
  refuses "a Host with a name before an at sign", 400, bare("GET / HTTP/1.1", "Host: a@b")
  refuses "a list of Hosts", 400, bare("GET / HTTP/1.1", "Host: a b")
  refuses "a Host with a port that is none", 400, bare("GET / HTTP/1.1", "Host: a:b")
  refuses "a Host with a port above 65535", 400, bare("GET / HTTP/1.1", "Host: a:65536")
  refuses "a Host other than the target's", 400, head(line: "GET http://other.example/ HTTP/1.1")

  # ---- expectations and limits ----

  refuses "an expectation that is unknown", 417, head("Expect: 200-ok", "Content-Length: 1") + "a"
  refuses "two expectations", 417, head("Expect: 100-continue, x", "Content-Length: 1") + "a"
  refuses "a target of 13 KB", 414, head(line: "GET /#{"a" * 13_000} HTTP/1.1"), unix: false
  refuses "101 fields", 431, head(*Array.new(100) { |n| "X-#{n}: a" }), unix: false
  refuses "a head of 65 KB", 431, head(*Array.new(66) { |n| "X-#{n}: #{"a" * 1_000}" }), unix: false
  refuses "a name of 257 bytes", 431, head("#{"X" * 257}: a"), unix: false

  def test_refused_heads_are_counted
    serve
    ask("GET / HTTP/1.1\r\n\r\n")
    ask(get("/#{"a" * 13_000}"))
    await_refused(bad_request: 1, uri_too_long: 1)
    assert_equal({requests: 0, failed: 0}, server.stats.slice(:requests, :failed))
  end

  # Every refused request with a readable head.
  def test_refusals_are_in_the_access_log
    lines = StringIO.new
    steps = gate
    serve(max_in_flight: 1, queue: {limit: 0}, max_body_size: 100, linger_timeout: 0.1, access_log: :common, access_log_to: lines) { |env| steps.pop && HELLO.call(env) }
    ask(post("/large", "x" * 101))
    ask(post_chunks("/larger", ["x" * 101]))
    ask(request("POST", "/chunks", "Transfer-Encoding: chunked", body: nil) + "g\r\n")
    running = connect << get("/running")
    await_stats(in_flight: 1)
    [get("/busy"), post("/body", "x"), request("HEAD", "/head"), "GET /\r\n"].each { |bytes| ask(bytes) }
    steps << 1
    running.answer
    await_refused(content_too_large: 2, bad_request: 2, queue_limit: 3)
    server.stop
    assert_equal ["POST /large HTTP/1.1\" 413 42", "POST /larger HTTP/1.1\" 413 42", "POST /chunks HTTP/1.1\" 400 14", "GET /busy HTTP/1.1\" 503 19",
      "POST /body HTTP/1.1\" 503 19", "HEAD /head HTTP/1.1\" 503 -", "GET /running HTTP/1.1\" 200 5"], lines.string.lines.map { |line| line[/"(.*)/, 1] }
  end

  def test_a_trusted_proxy_names_the_client_of_refused_requests
    steps = gate
    serve(max_in_flight: 1, queue: {limit: 0}, trusted_proxies: ["127.0.0.1"]) { |env| steps.pop && HELLO.call(env) }
    running = connect << get
    await_stats(in_flight: 1)
    ask(get("/", "X-Forwarded-For: 192.0.2.7"))
    assert_match(/a request from 192\.0\.2\.7 is refused with 503: /, await_refused(queue_limit: 1).first)
    steps << 1
    running.answer
  end

  def test_the_answer_arrives_though_much_more_was_sent
    serve
    wire = connect << "GET / HTTP/1.1\r\nBad\r\n\r\n"
    wire << "x" * 300_000
    assert_equal 400, wire.answer.status
    assert_predicate wire, :ended?
    await_refused(bad_request: 1)
  end

  # A request that is incomplete when the client closes isn't run either.
  {
    "half a head" => "GET /hidden HTTP/1.1\r\nHost: a\r\n",
    "a body that is too short" => "POST /hidden HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcd",
    "chunks without an end" => "POST /hidden HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n"
  }.each do |name, bytes|
    define_method(:"test_unfinished_#{name.tr(" ", "_")}") do
      paths = serve_paths(false)
      wire = (connect << bytes).close_write
      assert_predicate wire, :ended?
      await_stats(connections: 0)
      assert_empty paths
    end
  end

  # RFC 9110 §9.3.2: a client that sent HEAD would take a body for the next response.
  {"without a Host" => [400, bare("HEAD / HTTP/1.1")], "of a long URI" => [414, head(line: "HEAD /#{"a" * 20_000} HTTP/1.1")],
   "with a large body" => [413, head("Content-Length: 99999999999", line: "HEAD / HTTP/1.1")]}.each do |name, (status, bytes)|
    define_method(:"test_the_refusal_of_a_HEAD_#{name.tr(" ", "_")}_has_no_body") do
      serve
      text = (connect << bytes).rest
      assert_match(/\AHTTP\/1\.1 #{status} .*\r\nContent-Length: [1-9]\d*\r\n.*\r\n\r\n\z/m, text)
      await_refused(KINDS.fetch(status) => 1)
    end
  end

  LONG = "a" * 2_000
  # Sent bytes, and the part that the error log shows.
  {
    "GET /#{LONG} HTTP/1.1\r\n\r\n" => [414, "the request target is too long: max_uri_length is 64: GET /#{"a" * 43}..."],
    "GET /cart HTTP/1.1\r\nHost: a\r\nX: #{LONG}\r\n\r\n" => [431, "the head is too long: max_head_size is 1024: GET /cart HTTP/1.1"],
    "GET /cart HTTP/1.1\r\nHost: a\r\n#{"X: b\r\n" * 3}\r\n" => [431, "too many fields: max_header_count is 3: GET /cart HTTP/1.1"],
    "POST /cart?a=b HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n" => [413, "the body is larger than max_body_size (10 bytes) (POST /cart)"]
  }.each do |bytes, (status, words)|
    define_method(:"test_the_line_of_#{words.split(":").first.tr(" ", "_")}") do
      serve(max_uri_length: 64, max_head_size: 1_024, max_header_count: 3, max_body_size: 10)
      assert_equal status, (connect << bytes).answer.status
      assert await_refused(KINDS.fetch(status) => 1).first.end_with?("a request from 127.0.0.1 is refused with #{status}: #{words}")
    end
  end

  private

  def serve_paths(unix)
    @paths = []
    serve(unix:) { |env| @paths << env["PATH_INFO"] and env["rack.input"].read and HELLO.call(env) }
    @paths
  end

  def connect_to(unix)
    serve_paths(unix)
    connect
  end

  # Sends until the server answers, perhaps before the last byte.
  def send_bytes(wire, bytes)
    bytes.each_char do |byte|
      wire.send_apart(byte)
      break unless wire.quiet?
    end
    wire
  end

  def assert_refused(status, wire, good: 0)
    good.times { assert_equal 200, wire.answer.status }
    answer = wire.answer
    assert_equal [status, "close", "text/plain"], [answer.status, answer["connection"], answer["content-type"]], answer.body
    assert_match(/\A[ -~]+\n\z/, answer.body)
    assert_predicate wire, :ended?
    assert_equal ["/good"] * good, @paths
    line = await_refused(KINDS.fetch(status) => 1).fetch(0)
    assert_match(/warn: #{KINDS.fetch(status)}: a request from 127\.0\.0\.1 is refused with #{status}: #{told(answer.body.chomp)}\z/, line)
  end

  # The log names a limit with its value, and the request as far as it is known.
  def told(text)
    return /the body is larger than max_body_size \(\d+ bytes\) \(POST \/.*\)/ if text == "the body is larger than this server takes"
    /#{Regexp.escape(text)}(?:: max_(?:uri_length|head_size|header_count) is \d+: .+)?(?: \([A-Z]+ \S+\))?/
  end
end
