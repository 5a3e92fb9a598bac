# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "stringio"

# Requests are serialised from checked parts. Whatever could end a line or be read in two ways is refused.
class ProxyRequestTest < Minitest::Test
  Request = NeverBlock::Proxy::Request
  UPSTREAM = NeverBlock::Proxy::Upstream.new("http://app.internal:3000")

  def head(...) = Request.new(...).head(UPSTREAM)

  def refused(*arguments, **options)
    assert_raises(NeverBlock::Proxy::InvalidRequest) { Request.new(*arguments, **options) }
  end

  def test_the_least
    assert_equal "GET / HTTP/1.1\r\nHost: app.internal:3000\r\n\r\n", head("GET", "/")
  end

  def test_fields_come_in_order_and_several_values_on_several_lines
    assert_equal "GET /a?b=c HTTP/1.1\r\nHost: app.internal:3000\r\naccept: */*\r\ncookie: a\r\ncookie: b\r\n\r\n",
      head("GET", "/a?b=c", fields: {"accept" => "*/*", "cookie" => %w[a b]})
    assert_equal head("GET", "/", fields: {"a" => %w[b c]}), head("GET", "/", fields: [%w[a b], %w[a c]])
  end

  def test_host_is_the_requests_or_the_upstreams
    assert_includes head("GET", "/", host: "example.org:80"), "\r\nHost: example.org:80\r\n"
    assert_includes head("GET", "/", host: "[::1]"), "\r\nHost: [::1]\r\n"
    assert_equal "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", Request.new("GET", "/").head(NeverBlock::Proxy::Upstream.new("unix:/s"))
  end

  def test_the_length_is_the_clients_own
    assert_includes head("POST", "/", body: "é"), "\r\nContent-Length: 2\r\n"
    assert_includes head("POST", "/", body: StringIO.new("abc"), length: 3), "\r\nContent-Length: 3\r\n"
    assert_includes head("POST", "/", body: StringIO.new("abc")), "\r\nTransfer-Encoding: chunked\r\n"
    %w[POST PUT PATCH].each { |method| assert_includes head(method, "/"), "\r\nContent-Length: 0\r\n" }
    %w[GET HEAD DELETE OPTIONS].each { |method| refute_match(/content-length|transfer-encoding/i, head(method, "/")) }
  end

  def test_upgrade_trailers_and_the_expectation
    assert_includes head("GET", "/", upgrade: "websocket"), "\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
    assert_includes head("GET", "/", trailers: true), "\r\nConnection: TE\r\nTE: trailers\r\n"
    assert_includes head("GET", "/", upgrade: "a/1", trailers: true), "\r\nConnection: upgrade, TE\r\nUpgrade: a/1\r\nTE: trailers\r\n"
    assert_includes head("POST", "/", body: "a", expect_continue: true), "\r\nExpect: 100-continue\r\n"
    refute_includes head("POST", "/", expect_continue: true), "Expect"
  end

  def test_bytes_above_127_pass_in_any_encoding
    ["é", "é".encode("ISO-8859-1"), "\xFF".b, "\xFF"].each do |value|
      assert_includes head("GET", "/", fields: {"a" => value}), "\r\na: ".b + value.b + "\r\n"
    end
  end

  INJECTIONS = ["\r\nx: y", "\nx: y", "\rx: y", "\0", "a\r\n\r\nGET / HTTP/1.1", "\x01", "\x7f", "a\vb"].freeze

  def test_nothing_is_injected_through_a_value
    INJECTIONS.each do |text|
      refused("GET", "/", fields: {"a" => text})
      refused("GET", "/", fields: {"a" => "b#{text}"})
      refused("GET", "/", fields: {"a" => ["b", text]})
    end
    refused("GET", "/", fields: {"a" => "b\r\nc".encode("UTF-16LE")})
    refused("GET", "/", fields: {"a" => "\u010D\u010A".encode("UTF-16BE")})
    assert_equal "the value of the field a can't be sent: \"b\\r\\nc\". It must not have a control character, nor a line's end",
      refused("GET", "/", fields: {"a" => "b\r\nc"}).message
  end

  def test_nothing_is_injected_through_a_name
    [*INJECTIONS, "", " a", "a ", "a:", "a b", "a\tb", "é", "a(b)", "a" * 257].each { |text| refused("GET", "/", fields: {text => "b"}) }
  end

  def test_nothing_is_injected_through_the_target
    [*INJECTIONS.map { |text| "/#{text}" }, "", "a", "*", "http://other/", "//a b", "/a b", "/é", "/#a", "/ HTTP/1.1", "example.org:443", "?a"].each do |target|
      refused("GET", target)
    end
    assert_includes head("OPTIONS", "*"), "OPTIONS * HTTP/1.1\r\n"
    assert_includes head("GET", "//a/?b[]=\"<>^`{|}"), "GET //a/?b[]=\"<>^`{|} HTTP/1.1\r\n"
  end

  def test_nothing_is_injected_through_the_method
    [*INJECTIONS, "", "GET ", " GET", "GET / HTTP/1.1\r\n", "G(T)", "G" * 33, "CONNECT"].each { |method| refused(method, "/") }
    assert_includes head("M-SEARCH", "/"), "M-SEARCH / HTTP/1.1\r\n"
    assert_includes head("connect", "/"), "connect / HTTP/1.1\r\n"
  end

  def test_nothing_is_injected_through_host_and_upgrade
    [*INJECTIONS, "", "a b", "a/b", "me@a", "a:b", "a:1:2", "[::1", "é", "a,b\r"].each { |host| refused("GET", "/", host:) }
    [*INJECTIONS, "", "a b", "a, b", "a/b/c"].each { |protocol| refused("GET", "/", upgrade: protocol) }
  end

  def test_fields_of_the_connection_are_refused_in_any_case
    %w[connection Connection keep-alive Proxy-Connection proxy-authenticate proxy-authorization TE trailer
      Transfer-Encoding upgrade http2-settings content-length Content-Length host HOST expect].each do |name|
      refused("GET", "/", fields: {name => "a"})
    end
  end

  def test_what_is_no_string_is_refused
    refused("GET", "/", fields: {a: "b"})
    refused("GET", "/", fields: {"a" => nil})
    refused("GET", "/", fields: {"a" => 1})
    refused(:GET, "/")
    refused("GET", nil)
    refused("GET", "/", body: 1)
  end

  def test_content_that_would_be_doubtful_is_refused
    refused("TRACE", "/", body: "a")
    refused("GET", "/", upgrade: "websocket", body: "a")
    refused("POST", "/", length: 1)
    refused("POST", "/", body: StringIO.new("a"), length: -1)
    refused("POST", "/", body: StringIO.new("a"), length: "1\r\n")
    assert_raises(NeverBlock::Proxy::InvalidBody) { Request.new("POST", "/", body: "abc", length: 2) }
  end

  def test_which_requests_can_be_repeated
    assert(%w[GET HEAD OPTIONS TRACE PUT DELETE].all? { |method| Request.new(method, "/").repeatable? })
    refute(%w[POST PATCH get FOO].any? { |method| Request.new(method, "/").repeatable? })
    assert_predicate Request.new("PUT", "/", body: "a"), :repeatable?
    assert_predicate Request.new("PUT", "/", body: StringIO.new("a")), :repeatable?
  end

  # A deadline that never passes.
  FREE = Class.new { def limit_total = yield }.new

  def pieces(source, length = nil) = [].tap { |found| NeverBlock::Proxy::RequestBody.new(source, length).each(FREE) { |piece| found << piece.dup } }

  def test_pieces_of_readables_and_enumerables
    assert_equal ["3\r\nabc\r\n", "0\r\n\r\n"], pieces(StringIO.new("abc"))
    assert_equal ["1\r\na\r\n", "2\r\nbc\r\n", "0\r\n\r\n"], pieces(["a", "", "bc"])
    assert_equal ["abc"], pieces(StringIO.new("abc"), 3)
    assert_equal %w[a bc], pieces(%w[a bc], 3)
    assert_equal ["0\r\n\r\n"], pieces([])
    assert_equal [], pieces("")
    assert_equal ["2\r\né\r\n".b, "0\r\n\r\n"], pieces(["é"])
  end

  def test_pieces_are_bounded
    long = "abc" * 100_000
    [StringIO.new(long), [long], long].each do |source|
      found = pieces(source, long.bytesize)
      assert_operator found.map(&:bytesize).max, :<=, 65_536
      assert_equal long, found.join
    end
  end

  def test_too_many_and_too_few_bytes_are_never_sent_as_announced
    [StringIO.new("abc"), ["ab", "c"], ["abc"]].each do |source|
      assert_match(/more than the 2 bytes/, assert_raises(NeverBlock::Proxy::InvalidBody) { pieces(source, 2) }.message)
    end
    [StringIO.new("abc"), ["ab", "c"]].each do |source|
      assert_match(/3 of the 4 bytes/, assert_raises(NeverBlock::Proxy::InvalidBody) { pieces(source, 4) }.message)
    end
    assert_raises(NeverBlock::Proxy::InvalidBody) { pieces([1]) }
  end

  def test_which_bodies_can_be_repeated
    at_its_middle = StringIO.new("abc").tap { |io| io.read(1) }
    {"abc" => true, StringIO.new("abc") => true, at_its_middle => false, %w[a b] => false}.each do |source, expected|
      body = NeverBlock::Proxy::RequestBody.new(source, nil)
      assert_predicate body, :repeatable?, "untouched"
      body.each(FREE) { break }
      assert_equal expected, body.repeatable?
      next unless expected
      body.rewind
      found = []
      body.each(FREE) { |piece| found << piece }
      assert_includes found.join, "abc"
    end
  end
end
