# frozen_string_literal: true

# engines: every - io_uring's accepts and receives are stopped and begun again

require "test_helper"
require "support/served"

# Limits on connections, streams and descriptors; what was held back goes on afterwards.
class ServerLimitsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Served

  def test_so_many_connections
    steps = gate
    serve(max_connections: 3) { |env| (env["PATH_INFO"] == "/wait") ? steps.pop && HELLO.call(env) : HELLO.call(env) }
    open = Array.new(3) { connect << get("/wait") }
    await_stats(in_flight: 3)
    waiting = Array.new(4) { connect << get("/", "Connection: close") }
    assert_match(/connections: accepting pauses: 3 connections are open, none of them idle \(max_connections\)/, await_log.join)
    assert_equal 3, server.stats[:accepted]
    assert(waiting.all?(&:quiet?))
    open.first.close
    steps << 1
    waiting.each { |wire| assert_equal 200, wire.answer.status }
    2.times { steps << 1 }
    open.drop(1).each { |wire| assert_equal 200, wire.answer.status }
    log
  end

  # ---- room for new connections ----

  def test_the_oldest_idle_connection_makes_room
    serve(max_connections: 3)
    old = Array.new(3) { connect.tap { |wire| assert_equal 200, (wire << get).answer.status } }
    assert_equal 200, (old.first << get).answer.status # it is the youngest now
    fresh = connect << get
    assert_equal 200, fresh.answer.status
    assert_predicate old[1], :ended?
    [old[0], old[2], fresh].each { |wire| assert_equal 200, (wire << get).answer.status }
    assert_equal({connections: 3, evicted: 1}, server.stats.slice(:connections, :evicted))
  end

  def test_silent_connections_make_room
    serve(max_connections: 3)
    silent = Array.new(20) { connect }
    assert_equal 200, ask(get).status
    wait_until("room") { silent.count { |wire| !wire.quiet? && wire.ended? } >= 18 }
  end

  # Clients that don't close after their last answer, or after a refusal.
  def test_connections_that_have_had_their_last_answer_make_room
    serve(max_connections: 2, linger_timeout: 600, max_requests_per_connection: 1)
    done = [connect << get, connect << "nonsense\r\n\r\n"]
    assert_equal [200, 400], done.map { |wire| wire.answer.status }
    assert_equal [200, 200], [connect << get, connect << get].map { |wire| wire.answer.status }
    assert_equal({connections: 2, evicted: 2}, server.stats.slice(:connections, :evicted))
    log
  end

  def test_a_connection_that_has_had_its_last_answer_makes_room_for_one_that_waits
    steps = gate
    serve(max_connections: 1, linger_timeout: 600, max_requests_per_connection: 1) { |env| steps.pop && HELLO.call(env) }
    busy = connect << get
    await_stats(in_flight: 1)
    waiting = connect << get
    await_log
    2.times { steps << 1 }
    assert_equal [200, 200], [busy, waiting].map { |wire| wire.answer.status }
  end

  def test_a_connection_that_becomes_idle_makes_room
    steps = gate
    serve(max_connections: 1) { |env| (env["PATH_INFO"] == "/wait") ? steps.pop && HELLO.call(env) : HELLO.call(env) }
    busy = connect << get("/wait")
    await_stats(in_flight: 1)
    waiting = connect << get
    await_log
    steps << 1
    assert_equal 200, busy.answer.status
    assert_equal 200, waiting.answer.status
    assert_predicate busy, :ended?
  end

  def test_connections_with_a_request_under_way_stay
    serve(max_connections: 2)
    begun = [connect << "GET / HTTP/1.1\r\n", connect << request("POST", "/", "Content-Length: 3") << "ab"]
    await_stats(connections: 2, body_bytes: 2)
    waiting = connect << get
    await_log
    assert_predicate waiting, :quiet?
    begun.first << "Host: a\r\n\r\n"
    begun.last << "c"
    [*begun, waiting].each { |wire| assert_equal 200, wire.answer.status }
    log
  end

  # As for the health port: no client keeps a probe waiting.
  def test_where_any_connection_makes_room
    server = NeverBlock::Server.new(->(_env) { [200, {}, ["x" * (8 << 20)]] }, bind: "tcp://127.0.0.1:0", error_log: errors, max_connections: 4)
    server.yields = true
    @server = servers.push(server.start).last
    clients = [connect(receive: 4_096) << get]
    await_stats(streams: 1)
    begin_upload = -> { connect << request("POST", "/", "Content-Length: 3") << "a" }
    3.times { clients << begin_upload.call }
    await_stats(connections: 4, body_bytes: 3)
    assert_equal 200, ask(get).status
    assert_predicate clients[1], :ended?
    await_stats(connections: 2, streams: 0)
    2.times { begin_upload.call }
    await_stats(connections: 4, body_bytes: 4)
    assert_equal 200, ask(get).status
    assert_predicate clients[2], :ended?
    assert_equal 3, server.stats[:evicted]
    log
  end

  # ---- limits per address ----

  def test_so_many_connections_of_an_address
    serve(max_connections_per_address: 2)
    open = Array.new(2) { connect.tap { |wire| assert_equal 200, (wire << get).answer.status } }
    3.times { assert_predicate connect, :ended? }
    assert_match(/address: a connection from 127.0.0.1 is closed: 2 of that address are open \(max_connections_per_address\)/, await_log.join)
    assert_equal({connections: 2, accepted: 5, refused_address: 3}, server.stats.slice(:connections, :accepted, :refused_address))
    open.each { |wire| assert_equal 200, (wire << get).answer.status }
    open.first.close
    await_stats(connections: 1)
    assert_equal 200, ask(get).status
    log
  end

  # A refused connection takes no other connection's place.
  def test_an_address_at_its_limit_evicts_no_connection
    serve(max_connections: 2, max_connections_per_address: 2)
    open = Array.new(2) { connect.tap { |wire| assert_equal 200, (wire << get).answer.status } }
    5.times { assert_predicate connect, :ended? }
    open.each { |wire| assert_equal 200, (wire << get).answer.status }
    assert_equal 0, server.stats[:evicted]
    log
  end

  def test_proxies_and_unix_sockets_are_not_counted
    serve(max_connections_per_address: 1, trusted_proxies: ["127.0.0.0/8"])
    Array.new(3) { connect << get }.each { |wire| assert_equal 200, wire.answer.status }
    serve(max_connections_per_address: 1, unix: true)
    Array.new(3) { connect << get }.each { |wire| assert_equal 200, wire.answer.status }
  end

  # The address in a PROXY header, and for IPv6 its network.
  def test_the_address_of_a_proxy_header
    server = NeverBlock::Server.new(HELLO, bind: "tcp://127.0.0.1:0?proxy=required", error_log: errors, max_connections_per_address: 1)
    @server = servers.push(server.start).last
    from = ->(kind, address) { connect << "PROXY #{kind} #{address} #{address} 1 2\r\n" << get }
    first = %w[192.0.2.1 192.0.2.2].map { |address| from.call("TCP4", address) } + %w[2001:db8::1 2001:db8:0:1::1].map { |address| from.call("TCP6", address) }
    first.each { |wire| assert_equal 200, wire.answer.status }
    again = [from.call("TCP4", "192.0.2.1"), from.call("TCP6", "2001:db8::2")]
    again.each { |wire| assert_raises(NeverBlockTest::Wire::Truncated, Errno::ECONNRESET) { wire.answer } }
    assert_equal 2, server.stats[:refused_address]
    first[2].close
    await_stats(connections: 3)
    assert_equal 200, from.call("TCP6", "2001:db8::2").answer.status
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

  # Their requests have ended in the app.
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

  # In a process of its own, with few descriptors.
  slow "all descriptors are used up"
  def test_out_of_descriptors
    output = assert_ruby(<<~'RUBY')
      require "neverblock/server"
      require "socket"
      require "stringio"
      errors = StringIO.new
      Process.setrlimit(:NOFILE, 64, 64) # before the start: io_uring uses the limit at the time of its accept request
      server = NeverBlock::Server.new(->(_env) { [200, {}, ["hi"]] }, bind: "tcp://127.0.0.1:0", error_log: errors).start
      port = server.addresses.first[/\d+\z/].to_i
      request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
      wait = lambda do |&condition|
        sleep 0.01 until condition.call # real: the server's thread, and the kernel's closing of sockets
      end
      clients = []
      begin
        clients << TCPSocket.new("127.0.0.1", port) while true
      rescue Errno::EMFILE
        clients.pop(3).each(&:close)
      end
      wait.call { server.stats[:connections] <= clients.size } # the server's ends of those are closed too
      held = []
      begin
        held << File.open(File::NULL) while true
      rescue Errno::EMFILE
        held.pop.close
      end
      late = TCPSocket.new("127.0.0.1", port)
      late << request
      wait.call { errors.string.include?("descriptors: accepting pauses: Too many open files") }
      cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
      sleep 0.3 # real: the kernel goes on to report the listener as readable
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
    assert_equal ["idle", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK", "true", "0"], output.lines(chomp: true)
  end
end
