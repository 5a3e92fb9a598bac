# frozen_string_literal: true

# engines: every - io_uring's accepts and receives are stopped, watches are closed

require "test_helper"
require "support/served_in_time"

# Stopping: received requests are answered, idle connections are closed, and what doesn't end in time is cut off.
class ServerDrainTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  # Stops in the background.
  # @return [NeverBlock::Task] whose value is stop's
  def stopping(timeout: 20)
    task = NB.spawn { server.stop(timeout:) }
    wait_until("the stop") { %i[stopping ended].include?(server.stats[:state]) }
    task
  end

  def test_running_and_queued_requests_are_answered_and_their_connections_closed
    steps = serve_gated(max_in_flight: 2)
    wires = Array.new(6) { |n| connect << get("/wait#{n}") }
    await_stats(in_flight: 2, queued: 4)
    task = stopping
    6.times { steps << 1 }
    wires.each_with_index do |wire, n|
      assert_equal ["/wait#{n}", "close"], wire.answer.then { |answer| [answer.body, answer["connection"]] }
      assert_predicate wire, :ended?
    end
    assert_equal true, task.value
  end

  def test_new_connections_are_refused
    steps = serve_gated
    wire = connect << get("/wait")
    await_stats(in_flight: 1)
    task = stopping
    assert_raises(Errno::ECONNREFUSED) { connect }
    steps << 1
    wire.answer
    assert_equal true, task.value
  end

  def test_idle_connections_are_closed
    serve_gated
    idle = Array.new(5) { connect << get("/") }
    idle.each(&:answer)
    silent = Array.new(5) { connect }
    await_stats(connections: 10)
    task = stopping
    (idle + silent).each { |wire| assert_predicate wire, :ended? }
    (idle + silent).each(&:close)
    assert_equal true, task.value
  end

  # Its request is on the way, and nothing says whether it may be sent a second time.
  def test_the_first_request_of_a_new_connection
    serve_gated
    wire = connect
    await_stats(connections: 1)
    task = stopping
    assert_raises(Errno::ECONNREFUSED) { connect }
    assert_equal ["/", "close"], (wire << get).answer.then { |answer| [answer.body, answer["connection"]] }
    assert_equal true, task.value
  end

  # Until the sockets are closed, connections would get into the backlog, and be reset.
  def test_between_the_last_accept_and_the_close
    [false, true].each do |unix|
      serve(unix:)
      attempt = ->(*) { connect.then { "connected" } rescue $!.class } # standard:disable Style/RescueModifier
      attempts = []
      server.service.binder.define_singleton_method(:close) { (attempts << attempt.call) && super() }
      assert_equal true, server.stop
      assert_equal [Errno::ECONNREFUSED], attempts.uniq - [Errno::ENOENT]
    end
  end

  # systemd keeps it, and clients wait there for the next start.
  def test_a_socket_that_another_program_has_opened
    given = Socket.tcp_server_sockets("127.0.0.1", 0).first
    kept = given.dup
    @server = NeverBlock::Server.new(HELLO, error_log: errors)
    servers << server
    server.binder = NeverBlock::Server::Binder.for(server.configuration, given: [given])
    server.start
    assert_equal "hello", ask(get).body
    assert_equal true, server.stop
    client = Socket.tcp("127.0.0.1", kept.local_address.ip_port)
    assert_predicate kept.accept.tap { |socket, _| socket.close }, :any?
  ensure
    [client, kept].each { |socket| socket&.close }
  end

  # Requests in the kernel's buffers arrived in time.
  def test_requests_that_have_come_but_were_not_read
    known = fresh = nil
    stop = gate
    serve do |env|
      if env["PATH_INFO"] == "/hold"
        known << get("/known")
        fresh = Fiber.blocking { connect << get("/fresh") } # the loop has no turn
        stop << 1
      end
      [200, {}, [env["PATH_INFO"]]]
    end
    known = connect << get("/")
    known.answer
    task = NB.spawn { stop.pop && server.stop(timeout: 20) }
    holder = connect << get("/hold")
    assert_equal "/hold", holder.answer.body
    assert_equal [%w[/known close], %w[/fresh close]], [known, fresh].map { |wire| wire.answer.then { |answer| [answer.body, answer["connection"]] } }
    [holder, known, fresh].each { |wire| assert_predicate wire, :ended? }
    assert_equal true, task.value
  end

  def test_requests_under_way_are_finished
    steps = serve_gated
    running = connect << get("/wait")
    head = connect << "GET /head HTTP/1.1\r\nHost"
    body = connect << request("POST", "/body", "Content-Length: 6") << "abc"
    await_stats(connections: 3, in_flight: 1, body_bytes: 3)
    task = stopping
    head << ": a\r\n\r\n"
    body << "def"
    steps << 1
    assert_equal %w[/head /bodyabcdef /wait], [head, body, running].map { |wire| wire.answer.body }
    assert_equal true, task.value
  end

  def test_a_pipeline_ends_after_the_answer_under_way
    steps = serve_gated
    wire = connect << get("/wait") << get("/2") << get("/3")
    await_stats(in_flight: 1)
    task = stopping
    steps << 1
    assert_equal ["/wait", "close"], wire.answer.then { |answer| [answer.body, answer["connection"]] }
    assert_predicate wire, :ended?
    assert_equal true, task.value
  end

  def test_a_stream_may_end_by_itself
    steps = gate
    serve { |_env| [200, {}, ->(stream) { (stream << "a") && steps.pop && stream << "b" }] }
    wire = connect << get
    wire.read_head
    assert_equal "1\r\na\r\n", wire.read(6)
    task = stopping
    steps << 1
    assert_equal "1\r\nb\r\n0\r\n\r\n", wire.rest
    assert_equal true, task.value
  end

  def test_requests_that_do_not_end_in_time_are_cancelled
    ensures = gate
    serve do |env|
      sleep
    ensure
      ensures << env["PATH_INFO"]
    end
    wires = Array.new(3) { |n| connect << get("/#{n}") }
    await_stats(in_flight: 3)
    assert_equal false, assert_after(5..6) { server.stop(timeout: 5) }
    assert_equal [[503, "close"]] * 3, wires.map { |wire| wire.answer.then { |answer| [answer.status, answer["connection"]] } }
    wires.each { |wire| assert_predicate wire, :ended? }
    assert_equal %w[/0 /1 /2], Array.new(3) { ensures.pop }.sort
    assert_equal [:ended, 3, 0], server.stats.values_at(:state, :cut, :failed)
  end

  def test_queued_requests_when_the_time_is_over
    serve(max_in_flight: 1, queue: {max_wait: 60}) { |_env| sleep }
    wires = Array.new(3) { connect << get }
    await_stats(in_flight: 1, queued: 2)
    assert_equal false, assert_after(5..6) { server.stop(timeout: 5) }
    wires.each(&:rest)
    assert_equal 3, server.stats[:cut]
  end

  def test_unfinished_requests_when_the_time_is_over
    serve
    head = connect << "GET / HT"
    body = connect << request("POST", "/", "Content-Length: 10") << "abc"
    await_stats(connections: 2, body_bytes: 3)
    assert_after(5..6) { server.stop(timeout: 5) }
    [head, body].each { |wire| assert_equal "", wire.rest }
    assert_equal({connections: 0, body_bytes: 0}, server.stats.slice(:connections, :body_bytes))
  end

  def test_a_slow_client_still_gets_its_answer
    big = "x" * 5_000_000
    serve { |_env| [200, {}, [big]] }
    wire = connect(receive: 4_096) << get
    wire.read(1)
    await_stats(in_flight: 0, streams: 1)
    task = stopping
    assert_equal "TTP/1.1 200 OK\r\n", wire.read(16)
    assert wire.rest.end_with?(big)
    assert_equal true, task.value
  end

  def test_a_client_that_takes_nothing_is_cut
    closed = gate
    body = Object.new
    body.define_singleton_method(:each) { |&block| loop { block.call("x" * 100_000) } }
    body.define_singleton_method(:close) { closed << 1 }
    serve { |_env| [200, {}, body] }
    wire = connect(receive: 4_096) << get
    wire.read(1)
    assert_equal false, assert_after(5..6) { server.stop(timeout: 5) }
    assert_equal 1, closed.pop
    wire.rest
    assert_equal :ended, server.stats[:state]
  end

  def test_apps_that_swallow_their_cancellation
    serve do |_env|
      sleep
    rescue NeverBlock::Cancelled
      [200, {}, ["as if nothing had been"]]
    end
    wire = connect << get
    await_stats(in_flight: 1)
    assert_equal false, assert_after(5..6) { server.stop(timeout: 5) }
    assert_equal "as if nothing had been", wire.answer.body
  end

  def test_ensures_that_wait_are_waited_for
    done = gate
    serve do |_env|
      sleep
    ensure
      sleep 4
      done << 1
    end
    wire = connect << get
    await_stats(in_flight: 1)
    assert_equal false, assert_after(4..5) { server.stop(timeout: 0) }
    assert_equal 1, done.size
    wire.rest
  end
end

# The same with a server on a thread of its own.
class ServerDrainThreadTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  def test_stop_from_within_a_request
    answered = gate
    serve do |env|
      Thread.new { answered << server.stop(timeout: 20) }
      HELLO.call(env)
    end
    assert_equal "hello", ask(get).body
    assert_equal true, answered.pop(timeout: 10)
  end

  def test_nothing_is_left_of_it
    serve
    GC.start
    before = ObjectSpace.each_object(Thread).count(&:alive?)
    5.times do
      (connect << get).answer
      wires.each(&:close)
      assert_equal true, server.stop
      server.start
    end
    assert_operator ObjectSpace.each_object(Thread).count(&:alive?), :<=, before
  end
end
