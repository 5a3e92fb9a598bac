# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/runs"
require "support/virtual_time"

# When the connections of a pool are opened, checked and closed.
class ConnectionPoolLifecycleTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  # A client without a server.
  class Client
    attr_accessor :works, :closed, :ends

    def initialize
      @works = true
      @closed = false
      @ends = 0
    end

    def closed? = @closed

    def close = @ends += 1
  end

  def setup
    @clients = []
  end

  def test_a_connection_that_was_idle_for_too_long_is_replaced_at_its_next_use
    pool = pool(idle_timeout: 60)
    use(pool)
    clock.advance(61)
    use(pool)
    assert_equal [1, 0], @clients.map(&:ends)
    assert_equal [[2, 1], 1], [pool.stats.values_at(:opened, :closed), pool.idle]
  end

  def test_in_a_loop_idle_connections_are_closed_without_a_use
    pool = pool(idle_timeout: 60)
    in_run do
      use(pool)
      clock.advance(59)
      assert_equal 1, pool.idle
      clock.advance(2)
      assert_equal [0, [1]], [pool.idle, @clients.map(&:ends)]
      use(pool)
      clock.advance(61)
      assert_equal 0, pool.idle
    end
    assert_equal [1, 1], @clients.map(&:ends)
  end

  def test_a_loop_ends_while_connections_are_idle
    pool = pool(idle_timeout: 3600)
    in_run { use(pool) }
    assert_equal 1, pool.idle
    in_run { use(pool) }
    assert_equal 1, @clients.size
  end

  def test_an_old_connection_is_replaced
    pool = pool(max_age: 60)
    pool.with { clock.advance(61) }
    assert_equal [1], @clients.map(&:ends)
    assert_equal 0, pool.idle
  end

  def test_reap_closes_the_connections_that_were_idle_for_as_long
    pool = pool(size: 3)
    in_run { |scope| 3.times { scope.spawn { pool.with { NB.pass } } } }
    pool.reap { flunk }
    assert_equal 3, pool.idle
    reaped = []
    pool.with { pool.reap(idle_seconds: 0) { |client| reaped << client } }
    assert_equal [2, 1], [reaped.size, pool.idle]
    pool.reap(idle_seconds: 0)
    assert_equal [0, 1], [pool.idle, @clients.sum(&:ends)]
    assert_raises(ArgumentError) { pool.reap(idle_seconds: "1") }
  end

  def test_a_connection_that_fails_its_check_is_replaced
    checked = []
    pool = pool(check: ->(client) { (checked << client) && client.works }, check_after: 0)
    2.times { use(pool) }
    assert_equal [@clients.first], checked
    @clients.first.works = false
    use(pool)
    assert_equal [1, 0], @clients.map(&:ends)
  end

  def test_a_check_that_raises_or_waits_for_too_long_counts_as_failed
    pool = pool(check: ->(_client) { raise IOError }, check_after: 0)
    2.times { use(pool) }
    silent = pool(check: ->(_client) { sleep }, check_after: 0)
    in_run { 2.times { use(silent) } }
    assert_equal [1, 0, 1, 0], @clients.map(&:ends)
  end

  def test_a_connection_in_frequent_use_is_not_checked
    pool = pool(check: ->(_client) { flunk }, check_after: 3600)
    2.times { use(pool) }
  end

  def test_a_connection_that_its_user_has_closed_is_replaced
    pool = pool()
    pool.with { |client| client.closed = true }
    assert_equal 0, pool.idle
    use(pool)
    assert_equal 2, @clients.size
    broken = Class.new { def closed? = raise(IOError) }
    pool = NeverBlock::ConnectionPool.new(size: 1) { broken.new }
    pool.with { nil }
    assert_equal [0, 1], [pool.idle, pool.available]
  end

  def test_how_a_connection_is_closed
    ended = []
    clients = %i[close disconnect! disconnect finish quit].map do |name|
      Object.new.tap { |client| client.define_singleton_method(name) { ended << name } }
    end
    Array.new(5) { |index| NeverBlock::ConnectionPool.new(size: 1) { clients[index] } }.each do |pool|
      pool.with { nil }
      pool.close
    end
    assert_equal %i[close disconnect! disconnect finish quit], ended
    pool = pool(close: ->(client) { ended << client })
    use(pool)
    pool.close
    assert_equal [@clients.last, 0], [ended.last, @clients.last.ends]
    blank = NeverBlock::ConnectionPool.new(size: 1) { BasicObject.new }
    blank.with { nil }
    blank.close
    assert_equal 1, blank.stats[:closed]
  end

  def test_an_interrupted_connection_is_closed_without_a_farewell
    trilogy = Class.new do
      attr_reader :ended

      def close = @ended = :close

      def discard! = @ended = :discard!
    end
    clients = []
    pool = NeverBlock::ConnectionPool.new(size: 1) { trilogy.new.tap { |client| clients << client } }
    raised { pool.with { raise "no" } }
    pool.with { nil }
    pool.close
    assert_equal %i[discard! close], clients.map(&:ended)
  end

  private

  def pool(size: 1, **options) = NeverBlock::ConnectionPool.new(size:, **options) { Client.new.tap { |client| @clients << client } }

  def use(pool) = pool.with { nil }
end
