# frozen_string_literal: true

require "test_helper"
require "support/served"

# Connections, streams and descriptors: their limits, and that what was held back goes on.
class ServerLimitsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  def test_so_many_connections
    serve(max_connections: 3)
    open = Array.new(3) { connect << get }
    open.each { |wire| assert_equal 200, wire.answer.status }
    waiting = Array.new(4) { connect << get }
    assert_match(/connections: accepting pauses: 3 connections are open \(max_connections\)/, await_log.join)
    assert_equal 3, server.stats[:accepted]
    assert(waiting.all?(&:quiet?))
    open.each { |wire| assert_equal 200, (wire << get).answer.status }
    open.first.close
    assert_equal 200, waiting.shift.answer.status
    open.drop(1).each(&:close)
    2.times { assert_equal 200, waiting.shift.answer.status }
    assert_predicate waiting.first, :quiet?
    wires.each { |wire| wire.close unless wire == waiting.first }
    assert_equal 200, waiting.first.answer.status
    log
  end

  def test_a_hijacked_connection_makes_room
    sockets = gate
    serve(max_connections: 1) { |env| (env["PATH_INFO"] == "/hijack") ? sockets << env["rack.hijack"].call : HELLO.call(env) }
    connect << get("/hijack")
    io = sockets.pop(timeout: 10)
    assert_equal 200, ask(get).status
    io.close
    log
  end

  def test_streams_take_no_place_of_requests
    steps = gate
    serve(max_in_flight: 1) do |env|
      next HELLO.call(env) if env["PATH_INFO"] == "/"
      body = {"/each" => Enumerator.new { |yielder| (yielder << "a") && steps.pop }, "/stream" => ->(stream) { (stream << "a") && steps.pop }}
      [200, {}, body.fetch(env["PATH_INFO"])]
    end
    wires = Array.new(6) { |n| connect << get(n.odd? ? "/each" : "/stream") }
    await_stats(streams: 6, in_flight: 0)
    assert_equal 200, ask(get("/")).status
    6.times { steps << 1 }
    wires.each { |wire| assert_equal "a", wire.answer.body }
    await_stats(streams: 0)
  end

  # Their apps are done.
  def test_clients_that_do_not_read_take_no_place_of_requests
    file = File.join(@folder = Dir.mktmpdir("nb"), "big")
    File.write(file, "f" * (8 << 20))
    apps = {"/array" => -> { ["a" * (8 << 20)] }, "/many" => -> { Array.new(800) { "b" * 10_000 } },
            "/file" => -> { Struct.new(:to_path) { def each = nil }.new(file) }}
    serve(max_in_flight: 1) { |env| [200, {}, apps.fetch(env["PATH_INFO"], -> { ["hello"] }).call] }
    apps.each_key.with_index(1) do |path, count|
      connect(receive: 4_096) << get(path)
      await_stats(in_flight: 0, streams: count)
    end
    assert_equal 200, ask(get("/")).status
  end

  def test_streams_beyond_their_limit_count_as_requests
    steps = gate
    serve(max_in_flight: 2, max_streams: 2, queue: {max_wait: 60}) do |env|
      (env["PATH_INFO"] == "/") ? HELLO.call(env) : [200, {}, ->(stream) { (stream << "a") && steps.pop }]
    end
    wires = Array.new(4) { connect << get("/stream") }
    await_stats(streams: 2, in_flight: 2)
    blocked = connect << get("/")
    await_stats(queued: 1)
    4.times { steps << 1 }
    assert_equal 200, blocked.answer.status
    wires.each { |wire| assert_equal "a", wire.answer.body }
    await_stats(streams: 0, in_flight: 0)
  end

  def test_answers_that_do_not_wait_are_no_streams
    serve { |_env| [200, {}, Enumerator.new { |yielder| 100.times { yielder << "a" } }] }
    most = 0
    app = ->(_env) { [200, {}, Enumerator.new { |yielder| 100.times { (yielder << "a") && most = [most, server.stats[:streams]].max } }] }
    serve(app)
    ask(get)
    assert_equal 0, most
  end

  # In a process of its own, which may have few descriptors.
  slow "all descriptors are used up"
  def test_out_of_descriptors
    output = assert_ruby(<<~'RUBY')
      require "neverblock/server"
      require "socket"
      require "stringio"
      errors = StringIO.new
      Process.setrlimit(:NOFILE, 64, 64) # before the start: io_uring goes by the limit at the time it was told to accept
      server = NeverBlock::Server.new(->(_env) { [200, {}, ["hi"]] }, bind: "tcp://127.0.0.1:0", error_log: errors).start
      port = server.addresses.first[/\d+\z/].to_i
      request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
      wait = lambda do |what, &condition|
        500.times { condition.call ? (puts(what); break) : sleep(0.01) }
      end
      clients = []
      begin
        clients << TCPSocket.new("127.0.0.1", port) while true
      rescue Errno::EMFILE
        clients.pop(3).each(&:close)
      end
      500.times { (server.stats[:connections] <= clients.size) ? break : sleep(0.01) } # its ends of those are closed too
      held = []
      begin
        held << File.open(File::NULL) while true
      rescue Errno::EMFILE
        held.pop.close
      end
      late = TCPSocket.new("127.0.0.1", port)
      late << request
      wait.("told") { errors.string.include?("descriptors: accepting pauses: Too many open files") }
      cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
      sleep 0.3
      puts "idle" if Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - cpu < 0.15
      held.each(&:close)
      clients.first << request
      puts clients.first.readpartial(1000)[/\A.*/].strip
      clients.each(&:close)
      puts late.readpartial(1000)[/\A.*/].strip
      late.close
      puts errors.string.lines.size < 10
      server.stop(timeout: 5)
      puts server.stats[:connections]
    RUBY
    assert_equal ["told", "idle", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "true", "0"], output.lines(chomp: true)
  end
end
