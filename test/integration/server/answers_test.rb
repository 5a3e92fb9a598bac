# frozen_string_literal: true

require "test_helper"
require "support/served"

# From an app's return value to a response's head: statuses, fields and lengths.
class ServerAnswersTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  # A body that records its close.
  class Body
    attr_reader :closed

    def initialize(*parts) = (@parts, @closed = parts, 0)

    def each(&) = @parts.each(&)

    def close = @closed += 1
  end

  # ---- statuses ----

  {200 => "OK", 201 => "Created", 301 => "Moved Permanently", 404 => "Not Found", 418 => "I'm a teapot", 422 => "Unprocessable Content",
   451 => "Unavailable For Legal Reasons", 500 => "Internal Server Error", 503 => "Service Unavailable", 299 => "", 599 => "", 999 => ""}.each do |status, reason|
    define_method(:"test_status_#{status}") do
      serve { |_env| [status, {}, ["a"]] }
      answer = ask(get)
      assert_equal [status, reason, "a"], [answer.status, answer.reason, answer.body]
    end
  end

  def test_a_status_as_text
    serve { |_env| ["201", {}, []] }
    assert_equal 201, ask(get).status
  end

  def test_101_for_a_client_of_http_1_0
    serve { |_env| [101, {"upgrade" => "a", "connection" => "upgrade"}, []] }
    assert_equal 500, ask(get(version: "1.0")).status
    assert_match(/101, which a client of HTTP.1.0 can't have asked for/, log.join)
  end

  # RFC 9110 §7.8: Upgrade comes with the connection option of its name.
  def test_426_says_that_it_upgrades
    serve { |_env| [426, {"upgrade" => "TLS/1.3", "connection" => "upgrade"}, ["TLS, please"]] }
    wire = connect << get << get("/", "Connection: close")
    answers = wire.answers(2)
    assert_equal [["upgrade"], %w[close upgrade]], answers.map { |answer| answer.all("connection") }
    assert_equal [426, "TLS/1.3", "TLS, please"], answers.first.then { |answer| [answer.status, answer["upgrade"], answer.body] }
    assert_equal %w[keep-alive upgrade], ask(get("/", "Connection: keep-alive", version: "1.0")).all("connection")
  end

  # RFC 9110 §2.5
  def test_a_later_minor_version_is_read_as_1_1
    serve { |env| [200, {}, [env["SERVER_PROTOCOL"]]] }
    wire = connect << get(version: "1.2") << get(version: "1.9")
    assert_equal ["HTTP/1.1"] * 2, wire.answers(2).map(&:body)
  end

  # An interim answer leaves the client waiting for the final one: RFC 9110 §15.2.
  [0, 99, 100, 102, 103, 1_000, -1, nil, "abc", :ok, 200.5.to_s, Object].each do |status|
    define_method(:"test_no_status_#{status.inspect}") do
      body = Body.new("a")
      serve { |_env| [status, {}, body] }
      answer = ask(get)
      assert_equal [500, "an error occurred\n", 1], [answer.status, answer.body, body.closed]
      lines = log
      assert_equal 1, lines.size
      assert_includes lines.first, "the app's response has the status #{status.inspect}: it is a number from 200 to 999, or 101"
    end
  end

  [nil, [], [200, {}], 200, "hello", {}, Object.new].each do |value|
    define_method(:"test_no_answer_#{value.inspect[0, 12]}") do
      serve { |_env| value }
      assert_equal 500, ask(get).status
      assert_match(/the app returned .* a Rack app returns \[status, headers, body\]/, log.join)
    end
  end

  def test_an_answer_that_is_frozen
    serve { |_env| [200, {"a" => "b"}.freeze, ["c"].freeze].freeze }
    assert_equal %w[b c], ask(get).then { |answer| [answer["a"], answer.body] }
  end

  def test_an_answer_of_four
    serve { |_env| [200, {}, ["a"], :more] }
    assert_equal "a", ask(get).body
  end

  # ---- answers without a body ----

  {204 => nil, 205 => "0", 304 => nil}.each do |status, length|
    [["x"], [], nil, :each, :stream].each do |kind|
      define_method(:"test_#{status}_with_#{kind.inspect}") do
        bodies = []
        serve do |_env|
          body = {each: Body.new("x"), stream: ->(stream) { stream << "x" }}.fetch(kind, kind)
          bodies << body
          [status, {"content-length" => "1", "etag" => '"a"'}, body]
        end
        wire = connect << get << get
        fields = wire.answers(2).map { |answer| [answer.status, *%w[etag content-length transfer-encoding].map { |name| answer[name] }] }
        assert_equal [[status, '"a"', length, nil]] * 2, fields
        assert_predicate wire, :quiet?
        assert_equal [1, 1], bodies.map(&:closed) if kind == :each
      end
    end
  end

  # name => [headers, body, Content-Length of the answer to HEAD]
  {
    "an Array" => [{}, %w[ab c], "3"],
    "an Array and a length" => [{"content-length" => "3"}, %w[ab c], "3"],
    "the length of what GET would give" => [{"content-length" => "1000"}, [], "1000"],
    "each" => [{}, :each, nil],
    "each and a length" => [{"content-length" => "2"}, :each, "2"],
    "a file" => [{}, :file, File.size(__FILE__).to_s],
    "a stream" => [{}, :stream, nil],
    "nothing" => [{}, nil, nil]
  }.each do |name, (headers, kind, length)|
    define_method(:"test_HEAD_of_#{name.tr(" ", "_")}") do
      called = 0
      each = Body.new("ab")
      file = Body.new("no")
      file.define_singleton_method(:to_path) { __FILE__ }
      serve { |_env| [200, headers, {each:, file:, stream: ->(_stream) { called += 1 }}.fetch(kind, kind)] }
      wire = connect << request("HEAD", "/") << request("HEAD", "/")
      2.times do
        answer = wire.answer(head: true)
        assert_equal [200, length], [answer.status, answer["content-length"]]
      end
      assert_predicate wire, :quiet?
      assert_equal 0, called
      assert_equal 2, {each:, file:}[kind].closed if %i[each file].include?(kind)
    end
  end

  def test_no_body_at_all
    serve { |_env| [200, {}, nil] }
    wire = connect << get << get
    assert_equal [[:length, ""]] * 2, wire.answers(2).map { |answer| [answer.framing, answer.body] }
  end

  # ---- fields ----

  # name => [headers, what arrives of them]
  {
    "several" => [{"a" => "1", "B-c" => "2"}, [%w[a 1], %w[B-c 2]]],
    "an Array of values" => [{"set-cookie" => %w[a=1 b=2]}, [%w[set-cookie a=1], %w[set-cookie b=2]]],
    "an empty Array" => [{"a" => [], "b" => "1"}, [%w[b 1]]],
    "an empty value" => [{"a" => ""}, [["a", ""]]],
    "nil" => [{"a" => nil, "b" => "1"}, [%w[b 1]]],
    "a number and a symbol" => [{"a" => 5, :b => :c}, [%w[a 5], %w[b c]]],
    "blanks, tabs and bytes above 127" => [{"a" => "b \t \xC3\xA9"}, [["a", "b \t \xC3\xA9".b]]],
    "rack's own" => [{"rack.secret" => "1", "a" => "2"}, [%w[a 2]]],
    "hop by hop" => [{"connection" => "keep-alive", "transfer-encoding" => "gzip", "a" => "1"}, [%w[a 1]]],
    "CGI's own" => [{"status" => "404 Not Found", "Status" => "1", "status-code" => "2"}, [%w[status-code 2]]],
    "a Date of the app's own" => [{"date" => "Thu, 01 Jan 1970 00:00:00 GMT"}, [["date", "Thu, 01 Jan 1970 00:00:00 GMT"]]],
    "pairs" => [[%w[a 1], %w[a 2]], [%w[a 1], %w[a 2]]],
    "none" => [nil, []]
  }.each do |name, (headers, expected)|
    define_method(:"test_fields_#{name.tr(" ", "_")}") do
      serve { |_env| [200, headers, []] }
      fields = ask(get).fields
      own = [%w[Content-Length 0]]
      own << ["Date", fields.assoc("Date").last] unless expected.assoc("date")
      assert_equal expected + own, fields.map { |pair| pair.map(&:b) }
    end
  end

  EVIL = "\r\nset-cookie: evil=1"

  # Values that would become a field or a response of their own: CVE-2020-5247, CVE-2020-5249.
  {
    "CRLF in a value" => {"a" => "b#{EVIL}"},
    "CR in a value" => {"a" => "b\rc"},
    "LF in a value" => {"a" => "b\nset-cookie: evil=1"},
    "NUL in a value" => {"a" => "b\0c"},
    "an escape in a value" => {"a" => "b\e[2J"},
    "DEL in a value" => {"a" => "b\x7F"},
    "CRLF at the end" => {"a" => "b\r\n"},
    "CRLF in an Array" => {"a" => ["fine", "b#{EVIL}"]},
    "CRLF in a long value" => {"a" => "#{"b" * 5_000}#{EVIL}#{"c" * 5_000}"},
    "CRLF in a name" => {"a: b#{EVIL}\r\nc" => "d"},
    "LF in a name" => {"a\nset-cookie" => "evil"},
    "a colon in a name" => {"a:b" => "c"},
    "a blank in a name" => {"a b" => "c"},
    "an empty name" => {"" => "a"},
    "a name above 127" => {"\u00E9" => "a"},
    "CRLF in a date" => {"date" => "now#{EVIL}"},
    "CRLF in a length" => {"content-length" => "1#{EVIL}"},
    "two lengths" => {"content-length" => "1", "Content-Length" => "1"},
    "two lengths in an Array" => {"content-length" => %w[1 1]},
    "two lengths that differ" => {"Content-Length" => "1", "CONTENT-LENGTH" => "2"},
    "a length that is no number" => {"content-length" => "a"},
    "a negative length" => {"content-length" => "-1"},
    "an empty length" => {"content-length" => ""},
    "a length with a blank" => {"content-length" => "1 "},
    "a hexadecimal length" => {"content-length" => "0x1"},
    "a length without end" => {"content-length" => "9" * 30},
    "headers that are none" => "a: b"
  }.each do |name, headers|
    define_method(:"test_refused_#{name.tr(" ", "_")}") do
      body = Body.new("a")
      serve { |env| (env["PATH_INFO"] == "/") ? [200, headers, body] : HELLO.call(env) }
      wire = connect << get << get("/next")
      answer = wire.answer
      assert_equal [500, "an error occurred\n"], [answer.status, answer.body]
      assert_equal %w[Content-Type Content-Length Date], answer.fields.map(&:first), "nothing of the app's leaks"
      assert_equal "hello", wire.answer.body, "the connection goes on"
      assert_equal 1, body.closed
      lines = log
      assert_equal 1, lines.size
      refute_match(/[\x00-\x1F\x7F]/, lines.first)
    end
  end

  def test_a_header_object_with_each
    headers = Object.new
    def headers.each = yield("a", "1")
    serve { |_env| [200, headers, []] }
    assert_equal "1", ask(get)["a"]
  end

  def test_headers_that_raise
    headers = Object.new
    def headers.each = raise("no headers")
    body = Body.new("a")
    serve { |_env| [200, headers, body] }
    assert_equal [500, 1], [ask(get).status, body.closed]
    assert_match(/no headers/, log.join)
  end

  # Building a head calls the app's methods. Regression: a hijack there took the connection away, and early hints took
  # the response's place.
  {
    "an each of headers" => ->(say) { [200, Class.new { define_method(:each) { |&line| line.call("a", "1") || say.call } }.new, ["b"]] },
    "a to_s of a value" => ->(say) { [200, {"a" => Class.new { define_method(:to_s) { say.call && "1" } }.new}, ["b"]] },
    "a to_path" => ->(say) { [200, {}, Class.new { define_method(:to_path) { say.call && __FILE__ } }.new] },
    "a to_ary" => ->(say) { [200, {}, Class.new { define_method(:to_ary) { say.call && ["b"] } }.new] }
  }.each do |name, answer|
    define_method(:"test_a_hijack_from_#{name.tr(" ", "_")}") do
      serve { |env| (env["PATH_INFO"] == "/hijack") ? answer.call(env["rack.hijack"]) : HELLO.call(env) }
      wire = connect << get("/hijack") << get
      assert_equal [500, 200], wire.answers(2).map(&:status)
      assert_match(/too late for rack.hijack/, log.join)
    end

    define_method(:"test_early_hints_from_#{name.tr(" ", "_")}") do
      serve { |env| answer.call(-> { env["rack.early_hints"].call("link" => "</a>") || true }) }
      wire = connect << get << get
      wire.answers(2).each { |answered| assert_equal [200, []], [answered.status, answered.interim] }
    end
  end

  # As Rails 7.2 does with an Enumerator for a body; Rack::BodyProxy has closed the body by then.
  def test_a_to_ary_that_is_none
    body = Class.new(Body) { def to_ary = %w[a b].each }.new("wrong")
    serve { |_env| [200, {}, body] }
    assert_equal ["ab", 1], [ask(get).body, body.closed]
  end

  def test_a_thousand_fields_of_a_kilobyte
    headers = Array.new(1_000) { |n| ["x-#{n}", "v" * 1_000] }.to_h
    serve { |_env| [200, headers, ["a"]] }
    answer = ask(get)
    assert_equal headers.to_a, answer.fields.first(1_000)
    assert_equal "a", answer.body
  end

  # Rack 2 joined the values of one name with line feeds.
  def test_line_feeds_separate_values_under_rack_2
    outcome = assert_ruby(<<~'RUBY')
      module Rack
        RELEASE = "2.2.17"
      end
      require "neverblock/server"
      require "socket"
      values = ["a=1\nb=2\nc=3", "a\nb\rset-cookie: evil", "a\r\nset-cookie: evil", "one"]
      server = NeverBlock::Server.new(->(env) { [200, {"x" => values[env["PATH_INFO"][1..].to_i]}, []] }, bind: "tcp://127.0.0.1:0", error_log: $stdout).start
      values.each_index do |index|
        socket = TCPSocket.new("127.0.0.1", server.addresses.first[/\d+\z/].to_i)
        socket << "GET /#{index} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        puts socket.read.scan(/^(?:HTTP.*?|x: .*|set-cookie: .*)(?=\r$)/)
      end
      server.stop
    RUBY
    answers = outcome.lines(chomp: true).grep_v(/ error: /)
    assert_equal ["HTTP/1.1 200 OK", "x: a=1", "x: b=2", "x: c=3", "HTTP/1.1 500 Internal Server Error", "HTTP/1.1 500 Internal Server Error",
      "HTTP/1.1 200 OK", "x: one"], answers
  end

  # ---- lengths ----

  # name => [Content-Length, body, the answer's body]
  {
    "shorter" => ["5", ["abc"], "abc"],
    "longer" => ["3", ["abcde"], "abc"],
    "longer in the next part" => ["3", %w[ab cde f], "abc"],
    "longer than nothing" => ["0", ["a"], ""],
    "longer and large" => ["3", ["a" * 100_000], "aaa"],
    "shorter each" => ["5", :each, "abc"],
    "longer each" => ["2", :each, "ab"],
    "longer without end" => ["3", :endless, "xxx"],
    "shorter than nothing" => ["5", [], ""],
    "shorter stream" => ["5", :stream, "abc"],
    "longer stream" => ["2", :stream, "ab"]
  }.each do |name, (length, kind, expected)|
    define_method(:"test_length_#{name.tr(" ", "_")}") do
      each = Body.new("ab", "c")
      endless = Enumerator.new { |yielder| loop { yielder << "x" } }
      serve { |_env| [200, {"content-length" => length}, {each:, endless:, stream: ->(stream) { stream << "ab" << "c" }}.fetch(kind, kind)] }
      wire = connect << get << get("/next")
      if expected.bytesize == length.to_i
        assert_equal expected, wire.answer.body
      else
        assert_equal expected, assert_raises(NeverBlockTest::Wire::Truncated) { wire.answer }.answer.body
      end
      assert_predicate wire, :ended?
      assert_match(/the app's body is (short|long)er than its Content-Length of #{length}: the connection is closed/, await_log.join)
      await_stats(in_flight: 0, requests: 1, failed: 1)
      assert_equal 1, each.closed if kind == :each
    end
  end

  def test_length_that_fits
    {"3" => %w[a bc], "0" => [], "100000" => ["x" * 100_000]}.each do |length, body|
      serve { |_env| [200, {"Content-Length" => length}, body.each] }
      wire = connect << get << get
      assert_equal [body.join] * 2, wire.answers(2).map(&:body)
    end
  end

  def test_transfer_encoding_of_the_app_is_dropped
    {"chunked" => ["a"], "gzip, chunked" => ["a"].each}.each do |coding, body|
      serve { |_env| [200, {"Transfer-Encoding" => coding}, body] }
      wire = connect << get << get
      wire.answers(2).each { |answer| assert_equal "a", answer.body }
    end
  end

  def test_transfer_encoding_of_the_app_beside_a_length
    serve { |_env| [200, {"transfer-encoding" => "chunked", "content-length" => "1"}, ["a"].each] }
    assert_equal [:length, "a"], ask(get).then { |answer| [answer.framing, answer.body] }
  end
end
