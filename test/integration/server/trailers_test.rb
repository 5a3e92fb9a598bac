# frozen_string_literal: true

require "test_helper"
require "support/served_in_time"

# Fields after the content of a response (RFC 9110 §6.5): what a body's `trailers` returns.
class ServerTrailersTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  # A body that counts how often it is asked for trailers.
  class Body
    attr_reader :asked

    def initialize(pieces = %w[a b], &trailers)
      @pieces = pieces
      @trailers = trailers
      @asked = 0
    end

    def each(&) = @pieces.each(&)

    def trailers
      @asked += 1
      @trailers.call
    end
  end

  TE = ["Connection: TE", "TE: trailers"].freeze

  def serve_body(body, headers = {})
    serve(->(_env) { [200, headers, body] })
    body
  end

  def test_fields_after_the_content
    serve_body(Body.new { {"server-timing" => "db;dur=5", "x-list" => %w[1 2], "x-number" => 3, "x-none" => nil} }, {"trailer" => "server-timing"})
    wire = connect
    2.times do
      answer = (wire << get("/", *TE)).answer
      assert_equal ["ab", [%w[server-timing db;dur=5], %w[x-list 1], %w[x-list 2], %w[x-number 3]]], [answer.body, answer.trailers]
      assert_equal "server-timing", answer["trailer"]
    end
  end

  def test_words_of_a_client
    serve_body(Body.new { {"a" => "1"} })
    ["TE: Trailers", "TE: gzip;q=0.5 , trailers", "TE:\ttrailers\t,deflate"].each do |line|
      assert_equal [%w[a 1]], (connect << get("/", line)).answer.trailers, line
    end
    ["TE:", "TE: ,", "TE: trailer", "TE: x trailers", "TE: trailers;q=1"].each do |line|
      assert_equal [], (connect << get("/", line)).answer.trailers, line
    end
  end

  def test_an_app_knows_them_once_the_content_has_ended
    sum = 0
    serve(->(_env) {
      pieces = Enumerator.new { |out| 3.times { |number| out << (sum += number).to_s } }
      [200, {}, Body.new(pieces) { {"x-sum" => sum} }]
    })
    assert_equal [%w[x-sum 3]], (connect << get("/", *TE)).answer.trailers
  end

  {"no TE" => [], "another TE" => ["TE: gzip;q=0.5, trailersx"], "HEAD" => TE, "HTTP/1.0" => TE}.each do |what, lines|
    define_method(:"test_none_with_#{what.tr(" /.", "_")}") do
      body = serve_body(Body.new { {"a" => "1"} })
      wire = connect << request((what == "HEAD") ? "HEAD" : "GET", "/", *lines, version: (what == "HTTP/1.0") ? "1.0" : "1.1")
      answer = wire.answer(head: what == "HEAD")
      assert_equal [200, [], 0], [answer.status, answer.trailers, body.asked]
    end
  end

  def test_none_where_the_length_is_known
    body = serve_body(Body.new { {"a" => "1"} }, {"content-length" => "2"})
    answer = (connect << get("/", *TE)).answer
    assert_equal ["ab", [], 0], [answer.body, answer.trailers, body.asked]
  end

  def test_nil_and_an_empty_hash_are_none
    [nil, {}].each do |none|
      serve_body(Body.new { none })
      assert_equal ["ab", []], (connect << get("/", *TE)).answer.then { |answer| [answer.body, answer.trailers] }
    end
  end

  def test_the_framing_is_the_servers
    serve_body(Body.new { {"Transfer-Encoding" => "gzip", "connection" => "close", "Content-Length" => "9", "a" => "1"} })
    wire = connect
    2.times { assert_equal [%w[a 1]], (wire << get("/", *TE)).answer.trailers }
  end

  # The content has left already: the response is cut off, so that no client takes it for whole.
  {
    "a name with a blank" => [-> { {"a b" => "1"} }, /a header named "a b"/],
    "a value with a line break" => [-> { {"a" => "1\r\nb: 2"} }, /a control character in its value/],
    "an exception" => [-> { raise "no way" }, /RuntimeError: no way/],
    "no Hash" => [-> { 5 }, /the trailers of the app's body are 5: return a Hash of names and values/]
  }.each do |what, (trailers, reason)|
    define_method(:"test_a_response_is_cut_off_after_#{what.tr(" ", "_")}") do
      serve_body(Body.new(%w[a b].map { |letter| letter * 100_000 }, &trailers))
      error = assert_raises(NeverBlockTest::Wire::Truncated) { (connect << get("/", *TE)).answer }
      assert_equal 200_000, error.answer.body.bytesize
      line = nil
      wait_until("the log line") { line ||= log.first }
      assert_match reason, line
    end
  end

  def test_a_wait_for_them
    serve_body(Body.new { sleep(1) && {"a" => "1"} })
    assert_equal [%w[a 1]], (connect << get("/", *TE)).answer.trailers
  end

  # As without trailers, the end of each is the end of the content.
  def test_other_tasks_write_no_content_meanwhile
    asked, tried = gate, gate
    body = Body.new { (asked << 1) && tried.pop && {"a" => "1"} }
    late = nil
    body.define_singleton_method(:each) do |&block|
      block.call("ab")
      NeverBlock.spawn do
        asked.pop
        block.call("late")
      rescue IOError => late
      ensure
        tried << 1
      end
    end
    serve_body(body)
    answer = (connect << get("/", *TE)).answer
    assert_equal ["ab", [%w[a 1]]], [answer.body, answer.trailers]
    assert_equal "the stream is closed for writing", late&.message
  end

  def test_the_request_is_over_meanwhile
    gate = Thread::Queue.new
    closed = Thread::Queue.new
    body = Body.new { gate.pop || {"a" => "1"} }
    body.define_singleton_method(:close) { closed << true }
    serve_body(body)
    wire = connect << get("/", *TE)
    wire.read_head
    wait_until("the question") { body.asked == 1 }
    wire.reset
    gate << nil
    assert closed.pop(timeout: 20)
    assert_equal [%w[a 1]], (gate << nil) && (connect << get("/", *TE)).answer.trailers
  end
end
