# frozen_string_literal: true

require "test_helper"
require "neverblock/fibered_connection_pool"
require "support/runs"

# With connections of no database; with PostgreSQL: test/integration/connection_pool/fibered_test.rb.
class FiberedConnectionPoolTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  # A client whose statements take a turn of the loop.
  class Client
    attr_reader :log, :closed

    def initialize
      @log = []
      @closed = false
    end

    def exec(sql)
      @log << sql
      Fiber.current_scheduler ? NB.pass : nil
      sql
    end

    def close = @closed = true
  end

  def setup
    @clients = []
  end

  def test_sizes
    assert_equal [8, 16, 12, 3], [pool.size, pool(size: 16).size, pool({}, 12).size, pool({size: 3, eager: false}).size]
    assert_empty @clients
  end

  def test_eager
    pool(size: 3, eager: true)
    assert_equal 3, @clients.size
    in_run { pool({size: 2, eager: true}) }
    assert_equal 5, @clients.size
  end

  def test_statements_of_one_fiber_run_in_order_and_those_of_others_between
    pool, log = pool(size: 2), []
    in_run do
      fibers = NB::FiberPool.new(3)
      3.times { |fiber| fibers.spawn { 3.times { |number| log << pool.exec([fiber, number], true) } } }
    end
    assert_equal 9, log.size
    3.times { |fiber| assert_equal [0, 1, 2], log.select { |one, _| one == fiber }.map(&:last) }
    refute_equal log.sort, log
    assert_equal 2, @clients.size
  end

  def test_without_async_one_connection_more_is_used_in_blocking_mode
    pool = pool(size: 1)
    in_run do
      pool.exec("async", true)
      assert_equal "blocking", pool.exec("blocking")
      pool.hold { pool.exec("inside") }
    end
    assert_equal [%w[async inside], %w[blocking]], @clients.map(&:log)
    pool.close
    assert_equal [true, true], @clients.map(&:closed)
  end

  def test_hold_releases_the_connection_after_the_block
    pool = pool(size: 1)
    first = pool.hold { |client| client }
    assert_same(first, pool.hold { |client| pool.hold { |inner| assert_same(client, inner) && inner } })
  end

  def test_hold_with_true_keeps_it_until_release
    pool = pool(size: 1)
    in_run do |scope|
      begun = pool.hold(true) { |client| client.exec("begin") && client }
      other = parked(scope.spawn { pool.hold { |client| client.exec("other") } })
      pool.hold { |client| assert_same begun, client }
      pool.hold(true) do |client|
        client.exec("commit")
        pool.release(Fiber.current, client)
      end
      assert_equal "other", other.value
    end
    assert_equal [%w[begin commit other]], @clients.map(&:log)
    assert_raises(ArgumentError) { pool.release(Fiber.new { nil }) }
  end

  def test_all_connections
    pool = pool(size: 3)
    in_run do |scope|
      pool.hold do |busy|
        scope.spawn { pool.hold { nil } }.join
        seen = []
        pool.all_connections { |client| seen << client }
        assert_equal [@clients, busy], [seen.reverse, seen.last]
        assert_equal seen, pool.all_connections
      end
    end
  end

  def test_replace_acquired_connection
    pool = pool(size: 1)
    pool.hold do |first|
      second = pool.replace_acquired_connection
      assert_equal [true, false], [first.closed, second.closed]
      pool.hold { |client| assert_same second, client }
    end
    pool.hold { |client| assert_same @clients.last, client }
    assert_raises(NeverBlock::ConnectionPool::Error) { pool.replace_acquired_connection }
  end

  def test_fibers_of_a_programs_own_wait_for_each_other
    pool, log = pool(size: 1), []
    fibers = Array.new(3) do |number|
      Fiber.new do
        pool.hold do
          log << number
          Fiber.yield
        end
      end
    end
    fibers.each(&:resume)
    assert_equal [0], log
    fibers.each(&:resume) # the end of one goes on with the next
    assert_equal [0, 1, 2], log
  end

  def test_a_wait_may_have_a_limit
    pool = pool(size: 1, timeout: 0.001)
    in_run do |scope|
      parked(scope.spawn { pool.hold { sleep } })
      assert_kind_of NeverBlock::ConnectionPool::TimeoutError, raised { pool.hold { flunk } }
      scope.cancel
    end
  end

  def test_options_are_checked
    assert_match(/nil is not a Hash, a String or an Array/, assert_raises(ArgumentError) { NB::FiberedConnectionPool.new }.message)
  end

  def test_the_names_of_2008
    assert_ruby(<<~RUBY)
      require "neverblock-pg"
      raise unless NB::Pool::FiberedConnectionPool == NB::FiberedConnectionPool && NB::Pool::FiberPool == NB::FiberPool
      pool = NB::Pool::FiberedConnectionPool.new(:size => 2, :eager => true) { Object.new }
      raise unless pool.size == 2 && pool.all_connections.size == 2
      raise "the driver is loaded" if defined?(PG)
    RUBY
  end

  private

  def pool(options = nil, count = nil, **more)
    NB::FiberedConnectionPool.new(options, count, **more) { Client.new.tap { |client| @clients << client } }
  end
end
