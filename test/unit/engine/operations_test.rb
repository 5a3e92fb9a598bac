# frozen_string_literal: true

# engines: every - io_uring operates on sockets, the others watch them

require "test_helper"
require "support/served"
require "support/runs"

# Operations that the ring does by itself (accept, receive, send), and that the other engines do by readiness: observed
# through the server, which must behave the same.
class EngineOperationsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served
  include NeverBlockTest::Runs

  SHORT = 0.1
  SMALL = 4096 # bytes that a client's kernel keeps unread

  # ---- availability ----

  # A process may be forbidden io_uring: then there is no such engine.
  def test_the_ring_has_operations_while_a_server_listens
    skip "no engine called uring here" unless uring?
    assert_equal "true 0\n", assert_ruby(<<~RUBY, engine: "uring", environment: {"RUBY_MN_THREADS" => nil})
      require "neverblock/server"
      during = nil
      NeverBlock.run do
        server = NeverBlock::Server.new(->(_env) { [200, {}, []] }, bind: "tcp://127.0.0.1:0", error_log: File::NULL).start
        during = Fiber.scheduler.statistics[:operations]
        server.stop
      end
      print during == 1, " ", NeverBlock.run { Fiber.scheduler.statistics[:operations] }, "\n"
    RUBY
  end

  # Threads that migrate between native threads, as with RUBY_MN_THREADS and in Ractors, use readiness only, as with
  # epoll.
  def test_where_native_threads_change_there_are_none
    skip "no engine called uring here" unless uring?
    assert_equal "0 HTTP/1.1 200 OK\n", assert_ruby(<<~RUBY, engine: "uring", environment: {"RUBY_MN_THREADS" => "1"})
      require "neverblock/server"
      require "socket"
      NeverBlock.run do
        server = NeverBlock::Server.new(->(_env) { [200, {}, []] }, bind: "tcp://127.0.0.1:0", error_log: File::NULL).start
        client = TCPSocket.new("127.0.0.1", server.addresses.first[/\\d+\\z/].to_i)
        client << "GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"
        puts "\#{Fiber.scheduler.statistics[:operations]} \#{client.gets(chomp: true)}"
        client.close
        server.stop
      end
    RUBY
  end

  # ---- accepting ----

  def test_clients_beyond_max_connections_wait_at_the_door
    steps = gate
    serve(max_connections: 2) { |env| steps.pop && HELLO.call(env) }
    wires = Array.new(6) { connect << get("/", "Connection: close") }
    assert_match(/connections: accepting pauses/, await_log.join)
    await_stats(connections: 2, accepted: 2, in_flight: 2)
    assert(wires.all?(&:quiet?))
    6.times { steps << 1 }
    wires.each { |wire| assert_equal 200, wire.answer.status }
    await_stats(accepted: 6)
    log
  end

  slow "it waits for a client that does not read"
  def test_connections_that_wait_to_be_accepted_end_when_the_server_stops
    steps = gate
    serve(max_connections: 1) { |env| steps.pop && HELLO.call(env) }
    inside = connect << get
    await_stats(in_flight: 1)
    outside = Array.new(3) { connect << get }
    await_log
    stop = Thread.new { server.stop(timeout: 5) }
    await_stats(state: :stopping)
    steps << 1
    assert_equal 200, inside.answer.status
    assert stop.value
    outside.each { |wire| assert wire.reset? || wire.quiet? || wire.ended? }
    log
  end

  # The kernel's pending accept holds the socket open: it must have ended when stop returns.
  def test_the_port_is_free_as_soon_as_the_server_has_stopped
    serve
    port = server.addresses.first[/\d+\z/].to_i
    10.times do
      assert_equal "hello", ask(get).body
      assert server.stop
      assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port) }
      @server = NeverBlock::Server.new(HELLO, bind: "tcp://127.0.0.1:#{port}", error_log: errors)
      servers << @server
      @server.start
    end
  end

  def test_many_at_once_from_everywhere
    serve { |env| [200, {}, ["#{env["REMOTE_ADDR"]} #{env["PATH_INFO"]}"]] }
    wires = Array.new(300) { |number| connect << get("/#{number}") }
    assert_equal Array.new(300) { |number| "127.0.0.1 /#{number}" }, wires.map { |wire| wire.answer.body }
  end

  def test_a_client_that_is_gone_when_its_address_is_asked_for
    serve { |env| [200, {}, [env["REMOTE_ADDR"]]] }
    50.times { (connect << get).reset }
    assert_equal "127.0.0.1", ask(get).body
    await_stats(connections: 0)
  end

  # ---- receiving ----

  # Bytes sent ahead are kept up to a limit; then the client has to wait, and nothing is lost.
  def test_far_ahead
    gate = gate()
    serve { |env| gate.pop && [200, {}, [env["PATH_INFO"]]] }
    wire = connect
    filler = "X-Filler: #{"x" * 2000}"
    sender = Thread.new { 1000.times { |number| wire << get("/#{number}", filler) } }
    await_stats(in_flight: 1)
    1000.times { gate << 1 }
    assert_equal Array.new(1000) { |number| "/#{number}" }, wire.answers(1000).map(&:body)
    sender.join
  end

  # More clients send at once than there are buffers.
  def test_all_send_at_once
    serve { |env| [200, {}, [env["rack.input"].read.bytesize.to_s]] }
    wires = Array.new(100) { connect << get }
    wires.each { |wire| wire.answer.status }
    body = "x" * 50_000
    in_run { NeverBlock.concurrently(wires) { |wire| wire << post("/", body) } }
    assert_equal ["50000"] * 100, wires.map { |wire| wire.answer.body }
  end

  # More connections than buffers have data when the receive requests are made. Each is retried once at most.
  # Regression: retrying all of them took the processor from the others for seconds.
  slow "it waits for a client that does not read"
  def test_a_connection_without_a_buffer_waits_for_its_turn
    count = 900
    held = release = starved = nil
    serve do |env|
      case env["PATH_INFO"]
      when "/hold" # the loop itself
        held = true
        Thread.pass until release
      when "/starved"
        starved = Fiber.scheduler.statistics[:starved]
      end
      [200, {}, [env["PATH_INFO"]]]
    end
    hold = connect << get("/hold")
    wait_until("the loop's standstill") { held }
    crowd = Array.new(count) { |number| connect << get("/#{number}") }
    release = true
    assert_equal "/hold", hold.answer.body
    assert_equal Array.new(count) { |number| "/#{number}" }, crowd.map { |wire| wire.answer.body }
    assert_equal 200, ask(get("/starved")).status
    assert_operator starved, :<=, count
  end

  # A fiber takes over the reading and gives it back; no byte that arrives meanwhile is lost.
  def test_reading_changes_hands
    serve(request_body: :stream) { |env| [200, {}, [env["rack.input"].read.bytesize.to_s]] }
    wire = connect
    20.times do |round|
      wire << post("/", "x" * 100_000) << get << post("/", "y" * round)
      assert_equal ["100000", "0", round.to_s], wire.answers(3).map(&:body)
    end
  end

  def test_a_hijacked_connection_has_all_that_came
    serve do |env|
      io = env["rack.hijack"].call
      io.write(io.read(100_000).bytesize.to_s)
      io.close
    end
    20.times { assert_equal "100000", (connect << get << "x" * 100_000).rest }
    await_stats(connections: 0)
  end

  # ---- sending ----

  # Thousands of small responses to a client that doesn't read: they are collected, wait, and arrive in order.
  def test_answers_to_a_client_that_reads_late
    serve { |env| [200, {}, [env["PATH_INFO"], "x" * 1000]] }
    wire = connect(receive: SMALL)
    sender = Thread.new { 3000.times { |number| wire << get("/#{number}") } }
    wait_until("more answers than the client's kernel takes") { server.stats[:answered] > 100 }
    assert_equal Array.new(3000) { |number| "/#{number}#{"x" * 1000}" }, wire.answers(3000).map(&:body)
    sender.join
  end

  # Each kind of body after each other kind, so that waiting and immediate sends follow each other.
  def test_kinds_of_answers_in_turn_keep_their_order
    kinds = {"/small" => ["s" * 100], "/large" => ["l" * 70_000], "/many" => Array.new(30) { "m" * 1000 }, "/empty" => []}
    serve do |env|
      path = env["PATH_INFO"]
      case path
      when "/each" then [200, {}, Enumerator.new { |yielder| 5.times { yielder << "e" * 5000 } }]
      when "/waits" then [200, {}, Enumerator.new { |yielder| 3.times { (yielder << "w" * 10) && Thread::Queue.new.pop(timeout: 0.001) } }]
      when "/hints" then env["rack.early_hints"].call("link" => "a") || [200, {}, ["h"]]
      else [200, {}, kinds.fetch(path)]
      end
    end
    expected = kinds.transform_values(&:join).merge("/each" => "e" * 25_000, "/waits" => "w" * 30, "/hints" => "h")
    order = expected.keys.product(expected.keys).flatten
    wire = connect(receive: SMALL)
    sender = Thread.new { order.each { |path| wire << get(path) } }
    assert_equal expected.values_at(*order).map(&:hash), wire.answers(order.size).map { |answer| answer.body.hash }
    sender.join
  end

  # The last response has been sent before the connection is closed, however slow its reader is.
  def test_a_connection_closes_after_its_answers
    serve { |_env| [200, {}, ["x" * 1000] * 10] }
    wire = connect(receive: SMALL)
    sender = Thread.new { 300.times { |number| wire << get("/", *(("Connection: close" if number == 299))) } }
    wait_until("most requests") { server.stats[:requests] > 50 }
    assert_equal [10_000] * 300, wire.answers(300).map { |answer| answer.body.bytesize }
    assert_predicate wire, :ended?
    sender.join
  end

  def test_a_client_that_never_reads_is_cut_off
    serve(write_timeout: SHORT, idle_timeout: 60) { |_env| [200, {}, ["x" * 1000] * 10] }
    wire = connect(receive: SMALL)
    wire.socket.write_nonblock(get * 1000, exception: false)
    wait_until("some answers") { !wire.quiet? }
    await_stats(connections: 0, in_flight: 0)
    assert_operator server.stats[:timeouts], :>=, 1
  end

  # The request is over and its fiber gone: only the engine still has the response.
  slow "it waits for a client that does not read"
  def test_a_response_on_its_way_to_a_client_that_does_not_read
    skip "no engine called uring here" unless uring?
    assert_equal "[0, 0, 1]\n", assert_ruby(<<~RUBY, engine: "uring", environment: {"RUBY_MN_THREADS" => nil})
      require "neverblock/server"
      require "socket"
      require "tmpdir"
      path = File.join(Dir.mktmpdir, "socket")
      NeverBlock.run do
        app = ->(_env) { [200, {}, ["x" * 1000] * 10] }
        server = NeverBlock::Server.new(app, bind: "unix://\#{path}", early_hints: true, write_timeout: 0.1, idle_timeout: 60, error_log: File::NULL).start
        client = UNIXSocket.new(path)
        (1..1000).each do |count|
          client << "GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"
          NeverBlock.pass until server.stats[:answered] == count
          2.times { Queue.new.pop(timeout: 0.001) }
          break if Fiber.scheduler.statistics[:operations] > 2 # accept, receive and send
        end
        before = server.stats.values_at(:in_flight, :timeouts)
        NeverBlock.pass until server.stats[:connections] == 0
        p before + server.stats.values_at(:timeouts)
        client.close
        server.stop
      end
      File.delete(path) if File.exist?(path)
    RUBY
  end

  def test_a_client_that_leaves_while_its_answers_are_on_their_way
    serve { |_env| [200, {}, ["x" * 1000] * 10] }
    10.times do
      wire = connect(receive: SMALL)
      wire.socket.write_nonblock(get * 1000, exception: false)
      wait_until("some answers") { !wire.quiet? }
      wire.reset
      await_stats(connections: 0, in_flight: 0)
    end
  end

  def test_a_server_that_stops_while_answers_are_on_their_way
    serve { |_env| [200, {}, ["x" * 1000] * 10] }
    wire = connect(receive: SMALL)
    wire.socket.write_nonblock(get * 200, exception: false)
    wait_until("some answers") { !wire.quiet? }
    server.stop(timeout: 0)
    await_stats(connections: 0)
  end

  # ---- all together ----

  # Descriptor numbers are reused while operations are pending on them: no connection gets another's bytes.
  def test_numbers_that_are_used_again
    serve(max_connections: 40) { |env| [200, {}, [env["PATH_INFO"], "x" * env["HTTP_X_SIZE"].to_i]] }
    random = Random.new(7)
    in_run do
      NeverBlock.concurrently(Array.new(8) { |number| number }) do |number|
        60.times do |round|
          path, size = "/#{number}-#{round}", random.rand(20_000)
          wire = connect << get(path, "X-Size: #{size}")
          next wire.reset if random.rand(3).zero?
          assert_equal path + "x" * size, wire.answer.body
          random.rand(2).zero? ? wire.reset : wire.close
        end
      end
    end
    await_stats(connections: 0)
    log
  end

  # Beside fibers that wait for descriptors in the same loop; one descriptor is closed outside of the engine's
  # knowledge, so that the engine rebuilds its registrations.
  def test_beside_fibers_that_wait_for_descriptors
    in_run do
      serve
      readers = Array.new(3) { IO.pipe }
      a, b = UNIXSocket.pair
      task = parked(NeverBlock.spawn { a.readpartial(1) })
      b.write("1")
      task.value
      ghost = a.dup
      a.close
      b.write("boo")
      tasks = readers.map { |reader, _| parked(NeverBlock.spawn { reader.readpartial(10) }) }
      assert_equal "hello", ask(get).body
      readers.each_with_index { |(_, writer), index| writer.write(index.to_s) }
      assert_equal %w[0 1 2], tasks.map(&:value)
      assert_equal "hello", ask(get).body
      [ghost, b, *readers.flatten].each(&:close)
      server.stop
    end
  end

  private

  def uring? = NeverBlock::Scheduler.backends.include?("uring")
end
