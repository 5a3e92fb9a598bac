# frozen_string_literal: true

# engines: every - io_uring receives into shared buffers

require "test_helper"
require "support/served"
require "digest"

# rack.input: in memory, in a file, streamed; and responses that don't wait for it.
class ServerRequestBodiesTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  ECHO = ->(env) { [200, {}, [env["rack.input"].read]] }
  DIGEST = ->(env) { [200, {}, [Digest::MD5.hexdigest(env["rack.input"].read)]] }

  # ---- complete before the app runs ----

  [0, 1, 3, 4_095, 65_535, 65_536, 65_537, 300_000, 3_000_000].each do |size|
    content = Random.new(size).bytes(size)

    define_method(:"test_length_of_#{size}") do
      serve(DIGEST)
      wire = connect
      2.times { assert_equal Digest::MD5.hexdigest(content), (wire << post("/", content)).answer.body }
      await_stats(body_bytes: 0)
    end

    define_method(:"test_chunks_of_#{size}") do
      serve(DIGEST)
      pieces = content.empty? ? [] : Array.new(11) { |n| content.byteslice(size * n / 11...size * (n + 1) / 11) }.reject(&:empty?)
      wire = connect
      2.times { assert_equal Digest::MD5.hexdigest(content), (wire << post_chunks("/", pieces)).answer.body }
    end

    define_method(:"test_streamed_length_of_#{size}") do
      serve(DIGEST, request_body: :stream)
      wire = connect
      2.times { assert_equal Digest::MD5.hexdigest(content), (wire << post("/", content)).answer.body }
    end

    define_method(:"test_streamed_chunks_of_#{size}") do
      serve(DIGEST, request_body: :stream)
      wire = connect
      2.times { assert_equal Digest::MD5.hexdigest(content), (wire << post_chunks("/", content.empty? ? [] : [content])).answer.body }
    end
  end

  def test_small_bodies_are_in_memory_and_large_ones_in_a_file
    kinds = []
    serve(body_memory: 1_000) do |env|
      kinds << env["rack.input"].class
      ECHO.call(env)
    end
    [get, post("/", ""), post("/", "a"), post("/", "a" * 1_000), post("/", "a" * 1_001), post_chunks("/", ["a" * 1_000]), post_chunks("/", ["a" * 999, "aa"])].each { |bytes| ask(bytes) }
    assert_equal [NeverBlock::Server::EmptyInput, NeverBlock::Server::EmptyInput, StringIO, StringIO, File, StringIO, File], kinds
  end

  def test_all_memory
    serve(body_memory: 0) { |env| [200, {}, ["#{env["rack.input"].class} #{env["rack.input"].read}"]] }
    assert_equal "File abc", ask(post("/", "abc")).body
  end

  def test_content_length_and_chunks_in_env
    seen = []
    serve { |env| (seen << env.values_at("CONTENT_LENGTH", "HTTP_TRANSFER_ENCODING", "HTTP_CONTENT_LENGTH")) && HELLO.call(env) }
    [post("/", "abc"), post_chunks("/", ["abc"]), get].each { |bytes| ask(bytes) }
    assert_equal [["3", nil, nil], ["3", nil, nil], [nil, nil, nil]], seen
  end

  {"in memory" => 10, "in a file" => 100_000}.each do |name, size|
    define_method(:"test_it_can_be_read_in_every_way_#{name.tr(" ", "_")}") do
      text = "line one\nline two\n#{"x" * size}".b
      seen = nil
      serve do |env|
        input = env["rack.input"]
        seen = [input.gets, input.read(4), input.read(0), input.read(2, buffer = +"old"), buffer, input.read.bytesize, input.read, input.read(1), input.gets]
        input.rewind
        seen << input.each.to_a << input.external_encoding << input.rewind << input.read
        HELLO.call(env)
      end
      ask(post("/", text))
      assert_equal ["line one\n", "line", "", " t", " t", size + 3, "", nil, nil, text.lines, Encoding::BINARY, 0, text], seen
    end
  end

  def test_streamed_it_can_be_read_in_every_way
    seen = nil
    serve(request_body: :stream) do |env|
      input = env["rack.input"]
      seen = [input.gets, input.read(4), input.read(0), input.read(2, buffer = +"old"), buffer, input.readpartial(1), input.gets(nil), input.read, input.read(1), input.gets,
        input.eof?, input.external_encoding, input.respond_to?(:rewind)]
      HELLO.call(env)
    end
    ask(post("/", "line one\nline two\nmore\n"))
    assert_equal ["line one\n", "line", "", " t", " t", "w", "o\nmore\n", "", nil, nil, true, Encoding::BINARY, false], seen
    assert_equal %W[a\n b], [nil].then { serve(request_body: :stream) { |env| [200, {}, env["rack.input"].each.to_a] } && ask(post("/", "a\nb")).body.lines }
  end

  def test_a_length_that_none_can_have
    serve(request_body: :stream) { |env| env["rack.input"].read(-1) }
    2.times { |n| assert_equal 500, ask(n.zero? ? post("/", "abc") : get).status }
    assert_equal ["ArgumentError: negative length -1 given"] * 2, log.map { |line| line[/ArgumentError: [^|]*[^| ]/] }
  end

  def test_trailers_are_dropped
    seen = nil
    serve { |env| (seen = env) && ECHO.call(env) }
    wire = connect << request("POST", "/", "Transfer-Encoding: chunked", "Trailer: X-Sum") << "3\r\nabc\r\n0\r\nX-Sum: 1\r\nHost: evil\r\n\r\n" << get
    assert_equal ["abc", ""], wire.answers(2).map(&:body)
    assert_equal [nil, "example.org"], seen.values_at("HTTP_X_SUM", "HTTP_HOST")
  end

  def test_the_file_is_closed_with_the_request
    skip "/proc is needed" unless File.exist?("/proc/self/fd")
    inputs = []
    serve { |env| (inputs << env["rack.input"]) && HELLO.call(env) }
    wire = connect
    2.times { (wire << post("/", "x" * 70_000)).answer }
    wait_until("the close") { inputs.all?(&:closed?) }
  end

  def test_a_slow_upload_holds_neither_fiber_nor_place
    serve(max_in_flight: 1)
    slow = Array.new(20) { connect << request("POST", "/", "Content-Length: 100") << "x" * 50 }
    await_stats(body_bytes: 1_000)
    assert_equal({in_flight: 0, queued: 0, fibers: 0}, server.stats.slice(:in_flight, :queued, :fibers))
    assert_equal 200, ask(get).status
    slow.each { |wire| wire << "x" * 50 }
    slow.each { |wire| assert_equal 200, wire.answer.status }
  end

  def test_a_client_that_leaves_within_its_body
    calls = 0
    serve { |env| (calls += 1) && HELLO.call(env) }
    [request("POST", "/", "Content-Length: 100000") + "x" * 99_999, request("POST", "/", "Transfer-Encoding: chunked") + "5\r\nabc"].each do |bytes|
      wire = connect << bytes
      await_stats(connections: 1)
      wire.close
      await_stats(connections: 0, body_bytes: 0)
    end
    assert_equal [0, 2], [calls, server.stats[:dropped]]
  end

  # ---- chunks of a byte ----

  # One write per receive: 3,000 chunks of 6 bytes arrive in one or a few. Regression: a write for each blocked the
  # loop.
  def test_chunks_of_a_byte_are_stored_together
    skip "/proc/self/io is needed to count writes" unless File.readable?("/proc/self/io")
    body = post_chunks("/", Array.new(3_000, "x"))
    serve(body_memory: 0) { |env| [200, {}, [env["rack.input"].size.to_s]] }
    wire = connect
    before = writes
    wire << body
    assert_equal "3000", wire.answer.body
    assert_operator writes - before, :<, 300
  end

  def test_streamed_chunks_of_a_byte_are_read_together
    pieces = []
    serve(request_body: :stream) do |env|
      loop { pieces << env["rack.input"].readpartial(65_536) }
    rescue EOFError
      [200, {}, ["done"]]
    end
    wire = connect << post_chunks("/", Array.new(20_000, "x"))
    assert_equal "done", wire.answer.body
    assert_equal "x" * 20_000, pieces.join
    assert_operator pieces.size, :<, 200
  end

  def test_framing_that_outweighs_the_data
    body = "#{"1;#{"a" * 4_000}\r\nx\r\n" * 6}0\r\n\r\n"
    serve(ECHO)
    answer = ask(request("POST", "/", "Transfer-Encoding: chunked") + body)
    assert_equal [413, "chunks with far more framing than data\n", "close"], [answer.status, answer.body, answer["connection"]]
    await_refused(content_too_large: 1)
    serve(ECHO, request_body: :stream)
    assert_equal 413, ask(request("POST", "/", "Transfer-Encoding: chunked") + body).status
    await_refused(content_too_large: 1)
  end

  # Pipelined requests are taken from the front of the received bytes.
  def test_many_pipelined_bodies_in_one_write
    serve(ECHO)
    wire = connect << Array.new(500) { |n| post("/", n.to_s) + post_chunks("/", n.to_s.chars) }.join
    assert_equal Array.new(500) { |n| [n.to_s] * 2 }.flatten, wire.answers(1_000).map(&:body)
  end

  # ---- streamed ----

  def test_a_stream_starts_with_its_head
    steps = gate
    serve(request_body: :stream) do |env|
      steps << env["rack.input"].read(3)
      [200, {}, [env["rack.input"].read]]
    end
    wire = connect << request("POST", "/", "Content-Length: 6")
    await_stats(in_flight: 1)
    wire << "abc"
    assert_equal "abc", steps.pop(timeout: 10)
    wire << "def"
    assert_equal "def", wire.answer.body
  end

  def test_only_paths_that_begin_so_are_streamed
    kinds = []
    serve(request_body: :stream, request_body_path: "/up") { |env| (kinds << env["rack.input"].class.name[/\w+\z/]) && ECHO.call(env) }
    %w[/up /up/a /upper /down /].each { |path| assert_equal "abc", ask(post(path, "abc")).body }
    assert_equal %w[Input Input Input StringIO StringIO], kinds
    assert_equal "abc", ask(request("POST", "http://example.org/up", body: "abc")).body
    assert_equal "Input", kinds.last
  end

  # 50 MB to an app that reads on demand: unread bytes stay with the client and the kernel, which keeps little for a
  # unix socket. io_uring receives 32 buffers, a megabyte, at a time. If the loop is late, it fills all 64 that it has
  # at first (FIRST_BUFFERS) before it can be stopped.
  slow "an app that is slow"
  def test_a_client_waits_for_an_app_that_reads_slowly
    steps = gate
    step = 10_000_000
    serve(unix: true, request_body: :stream) do |env|
      counts = Array.new(5) { steps.pop && Array.new(10) { env["rack.input"].read(step / 10).bytesize }.sum }
      [200, {}, [counts.sum.to_s]]
    end
    wire = connect << request("POST", "/", "Content-Length: #{5 * step}")
    sent = send_what_goes(wire, 5 * step)
    5.times do |n|
      assert_operator sent, :<=, n * step + 2_500_000, "the server took bytes that the app had not read"
      steps << 1
      sent += send_what_goes(wire, 5 * step - sent)
    end
    wire << "x" * (5 * step - sent) # what a slow machine's server had not taken within the last pause
    assert_equal (5 * step).to_s, wire.answer.body
  end

  def test_a_client_that_leaves_within_a_streamed_body
    errors = gate
    serve(request_body: :stream) do |env|
      env["rack.input"].read
    rescue => error
      errors << error
      raise
    end
    wire = connect << request("POST", "/", "Content-Length: 10") << "abc"
    await_stats(in_flight: 1)
    wire.close
    assert_kind_of EOFError, errors.pop(timeout: 10)
    await_stats(in_flight: 0, connections: 0, dropped: 1, failed: 0)
  end

  {"no chunk size" => "x\r\n", "no CRLF after its data" => "1\r\nab", "a line feed in an extension" => "1;\na\r\n0\r\n\r\n"}.each do |name, body|
    define_method(:"test_a_streamed_body_with_#{name.tr(" ", "_")}") do
      serve(request_body: :stream) { |env| (env["PATH_INFO"] == "/rescue") ? rescued(env) : ECHO.call(env) }
      wire = connect << request("POST", "/", "Transfer-Encoding: chunked") << body << get("/hidden")
      assert_equal [400, "close"], wire.answer.then { |answer| [answer.status, answer["connection"]] }
      assert_predicate wire, :ended?
      wire = connect << request("POST", "/rescue", "Transfer-Encoding: chunked") << body << get("/hidden")
      assert_equal ["NeverBlock::ProtocolError", "close"], wire.answer.then { |answer| [answer.body, answer["connection"]] }
      assert_predicate wire, :ended?
      assert_equal({requests: 2, failed: 0}, server.stats.slice(:requests, :failed))
      assert_match(/bad_request: the body of a request from 127\.0\.0\.1 is refused with 400: /, await_refused(bad_request: 2).first)
    end
  end

  # ---- responses before the end of the body ----

  def test_an_answer_before_the_body_was_read
    serve(->(_env) { [401, {}, ["no"]] }, request_body: :stream)
    wire = connect << post("/", "x" * 20_000) << post_chunks("/", ["x" * 20_000, "y"]) << get
    assert_equal [401] * 3, wire.answers(3).map(&:status)
  end

  def test_an_answer_before_a_body_that_is_long
    serve(->(_env) { [401, {}, ["no"]] }, request_body: :stream)
    wire = connect << request("POST", "/", "Content-Length: 5000000")
    sender = Thread.new { (wire << "x" * 5_000_000) && :sent }
    assert_equal 401, wire.answer.status
    sender.report_on_exception = false
    assert_predicate wire, :ended?
    assert_equal 1, server.stats[:requests]
    sender.value
  end

  def test_an_answer_before_a_body_that_does_not_come
    serve(->(_env) { [401, {}, ["no"]] }, request_body: :stream)
    wire = connect << request("POST", "/", "Content-Length: 10")
    assert_equal 401, wire.answer.status
    assert_predicate wire, :ended?
    wire = connect << request("POST", "/", "Transfer-Encoding: chunked") << "5\r\nab"
    assert_equal 401, wire.answer.status
    assert_predicate wire, :ended?
  end

  def test_an_answer_before_a_body_that_is_malformed
    serve(->(_env) { [401, {}, ["no"]] }, request_body: :stream)
    wire = connect << request("POST", "/", "Transfer-Encoding: chunked") << "5\r\nabcdeX" << get("/hidden")
    assert_equal 401, wire.answer.status
    assert_predicate wire, :ended?
    assert_equal 1, server.stats[:requests]
  end

  def test_half_of_it_read
    serve(request_body: :stream) { |env| [200, {}, [env["rack.input"].read(5).to_s]] }
    wire = connect << post("/", "abcdefghij") << post_chunks("/", %w[abc defghij]) << get("/")
    assert_equal ["abcde", "abcde", ""], wire.answers(3).map(&:body)
  end

  private

  def writes = File.read("/proc/self/io")[/^syscw: (\d+)/, 1].to_i

  def rescued(env)
    env["rack.input"].read
  rescue NeverBlock::ProtocolError => error
    [200, {}, [error.class.name]]
  end

  # Writes until the kernel takes no more.
  def send_what_goes(wire, length)
    piece = "x" * 100_000
    sent = 0
    while sent < length && wire.socket.wait_writable(0.1)
      wrote = wire.socket.write_nonblock(piece.byteslice(0, length - sent), exception: false)
      sent += wrote if Integer === wrote
    end
    sent
  end
end
