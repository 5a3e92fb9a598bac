# frozen_string_literal: true

# engines: every - each back end tells of clients in a way of its own

require "test_helper"
require "neverblock/server/cluster/sockets"
require "support/served_in_time"

# Processes that accept from the same sockets: here servers in one loop, on a virtual clock.
class ServerBalanceTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::ServedInTime

  # Connections that a server may have above the least of the others.
  MOST_ABOVE = 2
  # Seconds for which a client is left to another server.
  PATIENCE = 0.002

  def setup
    super
    @balance = NeverBlock::Server::Balance.new
    @services, @clients, @sockets = [], [], []
    listen
  end

  def teardown
    @clients.each(&:close)
    @services.each { |service| stop(service) }
    @sockets.each(&:close)
    super
  end

  def test_a_burst_is_spread
    [2, 3].each do |count|
      services = Array.new(count) { join }
      burst(16)
      assert_spread 16, services, MOST_ABOVE
      burst(100)
      assert_spread 116, services, MOST_ABOVE + 116 / count / 8
      @clients.each(&:close)
      services.each { |service| stop(service) }
    end
  end

  def test_a_burst_over_a_unix_socket
    Dir.mktmpdir do |folder|
      listen(Addrinfo.unix("#{folder}/s"))
      services = Array.new(2) { join }
      burst(16)
      assert_spread 16, services, MOST_ABOVE
    end
  end

  # A worker that has replaced another one begins with none.
  def test_the_server_with_the_fewest_gets_the_next
    first = join
    burst(20)
    await_connections 20, first
    second = join
    burst(20)
    assert_spread 40, [first, second], MOST_ABOVE
  end

  def test_a_server_that_computes_leaves_no_client_waiting
    join_absent
    service = join
    assert_after(PATIENCE * 5) do # 2 at once, then 1, 2, 3, 4, 5
      burst(16)
      await_connections 16, service
    end
  end

  # A client that waits for another process would wait here as well, but not for ever.
  def test_a_server_that_computes_itself_leaves_clients_to_others_for_longer
    service, seen = nil, []
    join_absent
    service = join do
      seen << connections(service)
      compute(0.03)
      [200, {}, []]
    end
    burst(3, get * 6)
    @clients.each { |client| client.answers(6) }
    assert_equal [2, 3], seen.uniq
    assert_includes 4..6, seen.index(3), "requests of 30 ms within 100 ms: #{seen}"
  end

  def test_a_connection_that_ends_makes_room_at_once
    join_absent
    service = join
    burst(3)
    turn_until { connections(service) == 2 }
    5.times { sleep 0 }
    assert_equal 2, service.stats[:accepted]
    @clients.first.close
    turn_until { service.stats[:accepted] == 3 }
    assert_operator clock.elapsed, :<, PATIENCE
  end

  def test_no_client_is_left_to_a_server_that_accepts_none
    full, ended, entry = join_absent, join_absent, @balance.enter
    full.stand_back(true)
    stop(ended)
    assert_kind_of Integer, entry
    service = join
    assert_after(0) do
      burst(16)
      turn_until { connections(service) == 16 }
    end
  end

  def test_a_server_that_stops_takes_those_that_it_has_left_to_others
    join_absent
    service = join
    burst(3, get)
    turn_until { connections(service) == 2 }
    service.stop(20)
    assert_equal %w[hello] * 3, @clients.map { |client| client.answer.body }
  end

  # It shares the memory, and returns from the app.
  def test_a_child_process_of_an_app_leaves_its_parent_s_number_alone
    forking = join_absent do
      child = fork
      Process.wait(child) if child
      [200, {}, [child ? $?.exitstatus.to_s : "child"]]
    end
    on_other_socket { burst(1, get) }
    assert_equal "0", @clients.first.answer.body
    assert_equal 1, connections(forking)
    service = join
    assert_after(PATIENCE * 4) do # 3 at once, then 1, 2, 3, 4
      burst(13)
      await_connections 13, service
    end
  end

  def test_entries
    entries = Array.new(3) { @balance.enter }
    assert_equal [0, 1, 2], entries
    @balance.leave(1)
    @balance.leave(nil)
    assert_equal [1, 3], Array.new(2) { @balance.enter }
    nil while @balance.enter
    service = join # one that has none is served too
    burst(16)
    await_connections 16, service
    @balance.leave(7)
    assert_equal 7, @balance.enter
  end

  private

  def listen(address = Addrinfo.tcp("127.0.0.1", 0))
    @socket = Socket.new(address.afamily, :STREAM)
    @sockets << @socket
    @socket.bind(address)
    @socket.listen(200)
  end

  # @return [NeverBlock::Server::Service] one more that accepts from the sockets
  def join(&app)
    configuration = NeverBlock::Server::Configuration.new
    configuration.set(:error_log, errors)
    sockets = NeverBlock::Server::Cluster::Sockets.new({@socket.dup.tap { |one| one.autoclose = false }.fileno => uri})
    service = NeverBlock::Server::Service.new(app || HELLO, configuration, NeverBlock::Server::Events.new(configuration),
      binder: sockets, balance: @balance, balance_entry: @balance.enter)
    service.open
    NB.spawn { service.serve }
    service.wait_until_listening
    @services << service
    service
  end

  # One without connections, which would accept clients if it saw them.
  def join_absent(&app)
    @shared = @socket
    listen
    join(&app)
  ensure
    @other, @socket = @socket, @shared
  end

  def on_other_socket
    @socket = @other
    yield
  ensure
    @socket = @shared
  end

  def uri
    address = @socket.local_address
    address.unix? ? "unix://#{address.unix_path}" : "tcp://127.0.0.1:#{address.ip_port}"
  end

  def stop(service)
    service.stop(5)
    service.wait
  end

  # Clients that connect, and send their bytes, before a server can look.
  def burst(count, bytes = "")
    Fiber.blocking { count.times { @clients << (NeverBlockTest::Wire.new(uri, limit: LIMIT) << bytes) } }
  end

  def connections(service) = service.stats[:connections]

  def await_connections(count, *services)
    sleep PATIENCE / 4 until services.sum { |service| connections(service) } == count
  end

  def turn_until = (sleep 0 until yield)

  def assert_spread(count, services, most_above)
    await_connections count, *services
    counts = services.map { |service| connections(service) }
    assert_operator counts.max - counts.min, :<=, most_above, counts.inspect
  end
end
