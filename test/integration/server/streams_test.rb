# frozen_string_literal: true

# engines: every - io_uring sends, the others write when the socket is writable

require "test_helper"
require "support/raised"
require "support/served_in_time"

# Streaming bodies (Rack 3's call(stream)): writing, reading, several tasks at one stream, clients that leave.
class ServerStreamsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Raised
  include NeverBlockTest::ServedInTime

  # An app that responds with this stream to every request.
  def serve_stream(headers = {}, status: 200, **directives, &stream)
    serve(->(_env) { [status, headers, stream] }, **directives)
  end

  # ---- writing ----

  def test_methods_of_a_stream
    serve_stream do |stream|
      stream << "a" << "b"
      stream.write("c", :d, 5)
      stream.flush
      stream.write_nonblock("e")
      stream.close_read
      stream.close_write
    end
    assert_equal "abcd5e", ask(get).body
  end

  def test_write_tells_how_many_bytes
    counts = []
    serve_stream { |stream| counts << stream.write("é", "ab") << stream.write << stream.write("") }
    assert_equal "éab".b, ask(get).body
    assert_equal [4, 0, 0], counts
  end

  def test_closed
    seen = []
    serve_stream do |stream|
      seen << stream.closed?
      stream.close
      seen << stream.closed?
      stream << "more"
    rescue IOError => error
      seen << error.message
    end
    assert_equal "", ask(get).body
    assert_equal [false, true, "the stream is closed for writing"], seen
  end

  def test_after_the_answer_a_stream_is_closed
    kept = nil
    serve_stream { |stream| kept = stream << "a" }
    wire = connect << get
    assert_equal "a", wire.answer.body
    await_stats(streams: 0)
    assert_predicate kept, :closed?
    assert_equal "a", (wire << get).answer.body
    assert_equal [IOError], [raised { kept << "b" }.class]
  end

  def test_the_head_goes_before_the_first_write
    steps = gate
    serve_stream({"x" => "y"}) { |stream| steps.pop && stream << "a" }
    wire = connect << get
    assert_equal "y", wire.read_head["x"]
    steps << 1
    assert_equal "1\r\na\r\n0\r\n\r\n", wire.read(11)
  end

  def test_flush_sends_at_once_what_would_gather
    wire = nil
    quiet = []
    serve_stream do |stream|
      stream << "a"
      wire.read_head
      quiet << wire.quiet?
      stream.flush
      quiet << wire.quiet?
    end
    wire = connect << get
    assert_equal "1\r\na\r\n0\r\n\r\n", wire.read(11)
    assert_equal [true, false], quiet
  end

  def test_with_a_length
    serve_stream({"content-length" => "3"}) { |stream| stream << "ab" << "c" }
    wire = connect << get << get
    assert_equal [[:length, "abc"]] * 2, wire.answers(2).map { |answer| [answer.framing, answer.body] }
  end

  def test_in_http_1_0
    serve_stream { |stream| stream << "ab" }
    assert_equal [:close, "ab"], ask(get("/", version: "1.0")).then { |answer| [answer.framing, answer.body] }
  end

  def test_large_and_small_writes_to_a_slow_client
    parts = Array.new(60) { |n| n.to_s * ((n % 4 == 3) ? 100_000 : 500) }
    serve_stream { |stream| parts.each { |part| stream << part } }
    assert_equal parts.join, (connect(receive: 4_096) << get).answer.body
  end

  # ---- several tasks at one stream ----

  def test_tasks_that_write_at_once
    lines = Array.new(8) { |task| Array.new(120) { |n| "#{task}.#{n}:#{"x" * ((n % 5 == 0) ? 20_000 : 300)}\n" } }
    serve_stream do |stream|
      tasks = lines.map do |own|
        NB.spawn do
          own.each do |line|
            stream << line
            NB.pass
          end
        end
      end
      tasks.each(&:join)
    end
    wire = connect(receive: 4_096) << get
    await_stats(streams: 1)
    body = wire.answer.body
    assert_equal lines.flatten.map(&:chomp).sort, body.split("\n").sort
    lines.each { |own| assert_equal own.map(&:chomp), body.split("\n").select { |line| line.start_with?(own.first[/\A\d+\./]) } }
  end

  def test_a_task_that_is_still_writing_when_the_answer_ends
    outcome = gate
    serve_stream do |stream|
      NB.spawn do
        loop { stream << "x" * 50_000 }
      rescue => error
        outcome << error
      end
      NB.pass
    end
    wire = connect(receive: 4_096) << get
    assert_match(/\Ax+\z/, wire.answer.body)
    assert_match(/closed for writing/, outcome.pop(timeout: 10).message)
  end

  def test_a_task_that_is_cancelled_in_the_middle_of_a_write
    serve_stream do |stream|
      writer = NB.spawn { loop { stream << "x" * 100_000 } }
      clock.settle
      assert writer.waits_for, "it waits for the client"
      writer.cancel
      assert_raises(NeverBlock::Cancelled) { writer.value }
      stream << "more"
    end
    wire = connect(receive: 4_096) << get
    assert_match(/IOError: a write before this one was broken off in its middle/, await_log.join)
    refute_includes wire.rest, "more"
  end

  def test_tasks_that_read_and_write_at_once
    serve_stream(request_body: :stream) do |stream|
      reader = NB.spawn do
        while (piece = stream.read(10))
          stream << piece.upcase
        end
      end
      20.times { |n| (stream << "#{n},") && NB.pass }
      reader.join
    end
    wire = connect << post("/", "a" * 100)
    body = wire.answer.body
    assert_equal "A" * 100, body.delete("^A")
    assert_equal Array.new(20) { |n| "#{n}," }.join, body.delete("A")
  end

  # ---- reading ----

  def test_reading_the_request_s_body
    {buffer: :buffer, stream: :stream}.each_value do |mode|
      serve_stream(request_body: mode) { |stream| stream << stream.read(3) << "-" << stream.read << "-" << stream.read(1).inspect << stream.read }
      assert_equal "abc-defgh-nil", ask(post("/", "abcdefgh")).body
      assert_equal "abc-def-nil", ask(post_chunks("/", %w[ab cd ef])).body
    end
  end

  def test_reading_without_a_body
    serve_stream { |stream| stream << stream.read.inspect << stream.read(1).inspect << stream.gets.inspect << stream.eof?.inspect }
    assert_equal '""nilniltrue', ask(get).body
  end

  def test_readpartial_without_a_body
    serve_stream { |stream| stream.readpartial(5) rescue stream << $!.class.name } # standard:disable Style/RescueModifier
    assert_equal "EOFError", ask(get).body
  end

  def test_both_ways_at_once
    serve_stream(request_body: :stream) do |stream|
      while (piece = stream.gets)
        stream << piece.upcase
        stream.flush
      end
    end
    wire = connect << request("POST", "/", "Transfer-Encoding: chunked")
    wire.read_head
    %w[one two three].each do |word|
      wire << "#{(word.size + 1).to_s(16)}\r\n#{word}\n\r\n"
      assert_equal "#{(word.size + 1).to_s(16)}\r\n#{word.upcase}\n\r\n", wire.read(word.size + 6)
    end
    wire << "0\r\n\r\n"
    assert_equal "0\r\n\r\n", wire.read(5)
    assert_equal 200, (wire << post("/", "")).answer.status
  end

  # ---- clients that leave ----

  def test_a_client_that_leaves_while_the_app_waits_between_small_writes
    steps = gate
    ended = gate
    serve_stream do |stream|
      loop { (stream << "data: x\n\n") && steps.pop }
    rescue SystemCallError => error
      ended << error
    end
    wire = connect << get
    wire.read_head
    wire.read(14)
    wire.close
    wait_until("the end") { ended.size == 1 || (steps << 1 && false) }
    assert_kind_of SystemCallError, ended.pop
    await_stats(streams: 0, connections: 0)
  end

  def test_a_client_that_leaves_without_end
    serve_stream { |stream| loop { stream << "x" * 10_000 } }
    wires = Array.new(5) { connect << get }
    wires.each { |wire| wire.read(50_000) }
    wires.each_with_index { |wire, n| n.even? ? wire.reset : wire.close }
    await_stats(streams: 0, connections: 0, dropped: 5, failed: 0)
  end

  def test_a_stream_that_swallows_all_errors_ends_too
    serve_stream do |stream|
      10.times do
        stream << "x" * 100_000
      rescue IOError, SystemCallError
        next
      end
    end
    wire = connect << get
    wire.read(10)
    wire.reset
    await_stats(streams: 0, connections: 0)
    assert_equal 200, ask(get).status
  end

  # ---- failures ----

  def test_a_stream_that_fails_is_cut_off
    serve_stream { |stream| (stream << "a") && raise("no") }
    wire = connect << get << get
    assert_raises(NeverBlockTest::Wire::Truncated) { wire.answer }
    assert_predicate wire, :ended?
    assert_match(/RuntimeError: no/, await_log.join)
    await_stats(streams: 0, in_flight: 0, failed: 1)
  end

  # When only the close marks the end of a body, a failure must not look like one.
  def test_a_stream_that_fails_in_http_1_0_is_reset
    steps = gate
    serve_stream { |stream| (stream << "a").flush && steps.pop && raise("no") }
    wire = connect << get("/", version: "1.0")
    wire.read_head
    assert_equal "a", wire.read(1)
    steps << 1
    assert_predicate wire, :reset?
    assert_match(/RuntimeError: no/, await_log.join)
  end

  def test_a_write_of_other_objects
    serve_stream { |stream| stream << nil << 5 << :a }
    assert_equal "5a", ask(get).body
  end

  def test_another_thread_can_not_write
    serve_stream { |stream| stream << raised { Thread.new { (stream << "x") && nil }.tap { |thread| thread.report_on_exception = false }.join }.message }
    assert_match(/a request's stream belongs to its server's thread/, ask(get).body)
  end
end
