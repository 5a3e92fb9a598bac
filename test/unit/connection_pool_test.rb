# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/counted_clients"
require "support/virtual_time"
require "weakref"

# A pool's connections in use: to which fiber they belong, and how they come back. The folder connection_pool has the
# rest.
class ConnectionPoolTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::CountedClients
  include NeverBlockTest::VirtualTime

  def test_with_lends_a_connection_and_returns_the_blocks_value
    pool = pool(size: 2)
    assert_equal [:value, 2, 1], [pool.with { |client| assert_same(@clients.last, client) && :value }, pool.available, pool.idle]
    assert_equal 1, pool.then { pool.available }
    assert_equal 1, @clients.size
  end

  def test_it_is_filled_lazily_and_the_last_used_connection_comes_first
    pool = pool(size: 3)
    assert_empty @clients
    in_run do |scope|
      2.times { scope.spawn { pool.with { NB.pass } } }
    end
    assert_equal [2, 2, 3], [@clients.size, pool.idle, pool.available]
    last = pool.with { |client| client }
    assert_same last, pool.with { |client| client }
  end

  def test_a_call_inside_gets_the_same_connection
    pool = pool(size: 1, timeout: 0)
    pool.with do |outer|
      pool.with { |inner| assert_same outer, inner }
      assert_same outer, pool.checkout
      assert_equal [0, true], [pool.available, pool.holds?]
      pool.checkin
      assert_equal 0, pool.available
    end
    assert_equal [1, false], [pool.available, pool.holds?]
  end

  def test_child_fibers_tasks_and_threads_never_inherit_a_connection
    pool = pool(size: 4)
    in_run do |scope|
      pool.with do |own|
        others = [
          Fiber.new { pool.with { |other| other } }.resume,
          Enumerator.new { |found| pool.with { |other| found << other } }.next,
          scope.spawn { pool.with { |other| other } }.value,
          Thread.new { pool.with { |other| other } }.value
        ]
        others.each { |other| refute_same own, other }
      end
    end
  end

  def test_holders_are_described
    pool = pool(size: 2)
    thread = Thread.new { pool.with { sleep } }.tap { |one| one.name = "poller" }
    wait_until { pool.available == 1 }
    pool.with do
      holders = pool.holders # once: their ages are of that moment
      assert_includes holders.map { |holder| holder[:name] }, "poller"
      assert_equal [false, false], holders.map { |holder| holder[:ended] }
      assert_operator holders.first[:age], :>=, holders.last[:age]
    end
  ensure
    thread&.kill&.join
  end

  def test_threads_and_several_loops_share_it
    pool, most, running, lock = pool(size: 3), 0, 0, Thread::Mutex.new
    others_run = proc { NB.pass || Thread.pass }
    use = proc do
      pool.with do
        lock.synchronize { most = [most, running += 1].max }
        others_run.call until most == 3
        others_run.call
        lock.synchronize { running -= 1 }
      end
    end
    loops = Array.new(2) { Thread.new { NeverBlock.run { |scope| 20.times { scope.spawn { 5.times(&use) } } } } }
    plain = Array.new(4) { Thread.new { 20.times(&use) } }
    [*loops, *plain].each(&:join)
    assert_equal [3, 0, 3, 0], [most, running, pool.available, pool.stats[:waiting]]
    assert_equal 3, @clients.size
  end

  def test_a_fiber_that_ends_without_a_check_in_loses_its_connection
    pool = pool(size: 1, timeout: nil)
    in_run do
      first = NB.spawn { pool.checkout }.value
      assert_equal [0, true], [pool.available, pool.holders.first[:ended]]
      refute_same first, pool.with { |client| client }
      assert_equal 1, first.closes
    end
    Thread.new { pool.checkout }.join
    assert_kind_of Client, pool.with { |client| client }
  end

  def test_check_in_and_its_errors
    pool = pool(size: 1)
    assert_equal "no connections are checked out", assert_raises(NeverBlock::ConnectionPool::Error) { pool.checkin }.message
    assert_raises(NeverBlock::ConnectionPool::Error) { pool.discard_current_connection }
    assert_nil pool.checkin(force: true)
    2.times { pool.checkout }
    assert_nil pool.checkin(force: true)
    assert_equal 1, pool.available
  end

  def test_discard
    pool = pool(size: 1)
    first = pool.with do |client|
      pool.discard_current_connection
      client
    end
    second = pool.with do |client|
      pool.discard_current_connection { |other| @clients << other }
      client
    end
    assert_equal [1, 0, 0], [first.closes, second.closes, pool.idle]
    assert_same second, @clients.last
    pool.with { pool.discard_current_connection { raise "no" } }
    assert_equal 1, pool.available
  end

  def test_a_connection_is_replaced
    pool = pool(size: 1)
    pool.with do |first|
      second = pool.replace_current_connection
      refute_same first, second
      assert_equal [1, 0], [first.closes, second.closes]
      pool.with { |third| assert_same second, third }
    end
    assert_same @clients.last, pool.with { |client| client }
  end

  def test_shutdown
    pool, closed = pool(size: 2), []
    in_run do |scope|
      pool.with { nil }
      gate = Thread::Queue.new
      user = parked(scope.spawn { pool.with { |client| gate.pop && client } })
      pool.with do |own|
        waiter = parked(scope.spawn { raised { pool.with { flunk } } })
        assert_raises(ArgumentError) { pool.shutdown }
        pool.shutdown { |client| closed << client }
        assert_empty closed
        assert_kind_of NeverBlock::ConnectionPool::PoolShuttingDownError, waiter.value
        assert_kind_of Client, own
      end
      assert_equal 1, closed.size
      gate << true
      assert_equal [user.value], closed.drop(1)
    end
    assert_equal [0, true], [pool.idle, pool.shut?]
    error = assert_raises(NeverBlock::ConnectionPool::PoolShuttingDownError) { pool.checkout }
    assert_match(/the pool .* was shut down: make a new one/, error.message)
    assert_raises(NeverBlock::ConnectionPool::PoolShuttingDownError) { pool.reap { flunk } }
    assert_raises(NeverBlock::ConnectionPool::PoolShuttingDownError) { pool.try_checkout }
  end

  def test_close
    pool = pool(size: 1)
    client = pool.with { |one| one }
    pool.close
    assert_equal [1, true], [client.closes, pool.shut?]
    refute_includes NeverBlock.stats[:connection_pools].keys, pool.name
  end

  def test_reload_replaces_all_connections
    pool, closed = pool(size: 2), []
    in_run do |scope|
      pool.with { scope.spawn { pool.with { nil } }.join }
      pool.with do |held|
        pool.reload { |client| closed << client }
        assert_equal 1, closed.size
        refute_same held, closed.first
      end
      assert_equal @clients.first(2).sort_by(&:object_id), closed.sort_by(&:object_id)
      refute_includes closed, pool.with { |client| client }
      assert_equal 0, @clients.sum(&:closes)
    end
    pool.reload
    assert_equal [1, 0], [@clients.last.closes, pool.idle]
  end

  def test_a_child_process_has_connections_of_its_own
    skip "fork" unless Process.respond_to?(:fork)
    pool, kept = pool(size: 1), pool(size: 1, auto_reload_after_fork: false)
    pool.checkout
    first, second = @clients.last, kept.with { |client| client }
    child = fork do
      own = [pool.holds?, pool.with { |client| client.equal?(first) }, first.closes, kept.with { |client| client.equal?(second) }]
      exit!(own == [false, false, 0, true])
    end
    assert Process.wait2(child).last.success?
    assert_same first, pool.checkout
    pool.checkin(force: true)
  end

  def test_a_child_lets_go_of_connections_without_telling_the_server
    client = Class.new { attr_accessor :automatic_close }.new
    discarding = Class.new { attr_reader(:discards) && def discard! = (@discards = 1) }.new
    pair = UNIXSocket.pair
    postgres = Struct.new(:socket_io).new(pair.last)
    [client, discarding, TCPServer.new("127.0.0.1", 0), postgres].each do |one|
      pool = NeverBlock::ConnectionPool.new(size: 1) { one }
      pool.with { nil }
      pool.after_fork
      assert_equal [0, 1], [pool.idle, pool.available]
    end
    assert_equal [false, 1], [client.automatic_close, discarding.discards]
    assert_nil pair.first.read(1), "its descriptor is no socket any more"
  ensure
    pair&.each(&:close)
  end

  def test_statistics
    pool = pool(size: 2, name: "cache")
    again = pool(size: 1, name: "cache")
    assert_equal ["cache", "cache (2)"], [pool.name, again.name]
    pool.with do
      figures = NeverBlock.stats[:connection_pools].fetch("cache")
      assert_operator figures.delete(:held_oldest), :>=, 0
      expected = {size: 2, idle: 0, held: 1, waiting: 0, opened: 1, closed: 0, interrupted: 0, waits: 0, wait_seconds: 0.0, timeouts: 0, refused: 0, circuit_open: false}
      assert_equal expected, figures
      assert_equal "#<NeverBlock::ConnectionPool cache: 1 of 2 held, 0 idle, 0 wait>", pool.inspect
    end
    assert_match(/\Aconnection_pool_test\.rb:\d+/, NeverBlock::ConnectionPool.new(size: 1) { Client.new }.name)
  end

  def test_options_are_checked
    {size: -1, timeout: -1, max_waiting: "x", idle_timeout: "x", max_age: -1, check_after: "1"}.each do |option, value|
      error = assert_raises(ArgumentError) { NeverBlock::ConnectionPool.new(option => value) { nil } }
      assert_match(/\A#{option}: #{Regexp.escape(value.inspect)} is not a /, error.message)
    end
    assert_raises(ArgumentError) { NeverBlock::ConnectionPool.new }
    assert_raises(ArgumentError) { pool(size: 1).with(limit: 1) { flunk } }
    assert_equal 2, pool(size: "2").size
    assert_raises(NeverBlock::ConnectionPool::TimeoutError) { pool(size: 0, timeout: "0").checkout }
  end

  def test_a_pool_that_is_used_by_the_block_that_connects
    pool = NeverBlock::ConnectionPool.new(size: 2, name: "knot") { pool.with { flunk } }
    assert_match(/the block that connects, of the pool knot, uses the pool itself/, assert_raises(NeverBlock::ConnectionPool::Error) { pool.with { flunk } }.message)
    assert_equal 2, pool.available
  end

  def test_a_connection_may_be_nil_or_false
    pool = NeverBlock::ConnectionPool.new(size: 1) { nil }
    assert_nil pool.with { |connection| connection }
    assert_equal 1, pool.idle
  end

  def test_a_pool_is_collected
    pools = Array.new(10) { |number| WeakRef.new(NeverBlock::ConnectionPool.new(name: "dropped #{number}") { Client.new }) }
    wait_until("a collection") { GC.start || !pools.all?(&:weakref_alive?) }
  end
end
