# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "support/runs"

# What becomes of a connection, by the way in which its user's block was left.
class ConnectionPoolInterruptionsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  Client = Struct.new(:closes) do
    def close = self.closes += 1
  end

  # Ways out that end a block as it was written.
  KEPT = {
    value: ->(pool) { pool.with { :value } },
    next: ->(pool) { pool.with { |_client| next :value } },
    break: ->(pool) { pool.with { break :value } },
    return: lambda do |pool|
      returning = Object.new
      returning.define_singleton_method(:call) { pool.with { return :value } }
      returning.call
    end,
    nested: ->(pool) { pool.with { pool.with { :value } } },
    check_in: lambda do |pool|
      pool.checkout
      pool.checkin
      :value
    end
  }.freeze

  KEPT.each do |name, way|
    define_method(:"test_the_connection_is_kept_after_#{name}") do
      [-> { way.call(@pool) }, -> { in_run { way.call(@pool) } }].each { |call| assert_equal :value, call.call }
      assert_equal [1, [0], 0], [@pool.idle, @clients.map(&:closes), @pool.stats[:interrupted]]
    end
  end

  # Ways out of which none tells whether a response is still to come.
  CLOSED = {
    error: ->(pool) { pool.with { raise "no" } },
    error_inside: ->(pool) { pool.with { pool.with { raise "no" } } },
    rescued_inside: lambda do |pool|
      pool.with do
        pool.with { raise "no" }
      rescue
        :value
      end
    end,
    no_standard_error: ->(pool) { pool.with { raise NotImplementedError } },
    throw: ->(pool) { catch(:out) { pool.with { throw :out } } },
    throw_inside: ->(pool) { pool.with { catch(:out) { pool.with { throw :out } } } },
    timeout: ->(pool) { Timeout.timeout(0.001) { pool.with { sleep } } },
    timeout_with_a_class: ->(pool) { Timeout.timeout(0.001, ArgumentError) { pool.with { sleep } } },
    neverblock_timeout: ->(pool) { NeverBlock.timeout(0.001) { pool.with { sleep } } },
    move_on_after: ->(pool) { NeverBlock.run { NeverBlock.move_on_after(0.001) { pool.with { sleep } } } },
    thread_kill: lambda do |pool|
      thread = Thread.new { pool.with { sleep } }
      Thread.pass until thread.stop?
      thread.kill.join
    end,
    thread_raise: lambda do |pool|
      thread = Thread.new { pool.with { sleep } }
      thread.report_on_exception = false
      Thread.pass until thread.stop?
      thread.raise("no")
      thread.join
    end,
    fiber_kill: lambda do |pool|
      fiber = Fiber.new { pool.with { Fiber.yield } }
      fiber.resume
      fiber.kill
    end,
    check_in_of_an_ensure: lambda do |pool|
      pool.checkout
      raise "no"
    ensure
      pool.checkin
    end
  }.freeze

  CLOSED.each do |name, way|
    define_method(:"test_the_connection_is_closed_after_#{name}") do
      [-> { way.call(@pool) }, -> { in_run { way.call(@pool) } }].each_with_index do |call, index|
        raised(&call)
        assert_equal [[1] * (index + 1), 0, 1], [@clients.map(&:closes), @pool.idle, @pool.available]
      end
      assert_equal 0, @pool.with { |client| client.closes }
    end
  end

  def setup
    @clients = []
    @pool = NeverBlock::ConnectionPool.new(size: 1) { Client.new(0).tap { |client| @clients << client } }
  end

  def test_a_cancelled_task
    in_run do |scope|
      task = parked(scope.spawn { @pool.with { sleep } })
      waiter = parked(scope.spawn { @pool.with { |client| client } })
      task.cancel
      own = waiter.value
      assert_same @clients.last, own
    end
    assert_equal [[1, 0], 1], [@clients.map(&:closes), @pool.stats[:interrupted]]
  end

  def test_a_waiter_for_the_place_of_an_interrupted_one_opens_its_own
    gate = Thread::Queue.new
    pool = NeverBlock::ConnectionPool.new(size: 1) { gate.pop }
    in_run do |scope|
      gate << Client.new(0)
      user = parked(scope.spawn { pool.with { sleep } })
      waiters = Array.new(2) { |number| parked(scope.spawn { pool.with { |client| [number, client] } }) }
      user.cancel
      gate << (second = Client.new(0))
      assert_equal [[0, second], [1, second]], waiters.map(&:value)
    end
  end

  class Struck < StandardError
  end

  # An exception from outside arrives when a method or a block ends: at each of these, in turn, in the pool's own code.
  {ends: -> {}, raises: -> { raise IOError }}.each do |name, work|
    {opened: true, to_be_opened: false}.each do |kind, opened|
      define_method(:"test_an_exception_at_each_return_while_a_block_#{name}_with_a_connection_#{kind}") do
        (1..).each do |number|
          pool = NeverBlock::ConnectionPool.new(size: 1, timeout: nil) { Client.new(0) }
          first = pool.with { |client| client } if opened
          struck = striking(number) { pool.with { |client| (first = client) && work.call } }
          break unless struck
          other = Thread.new { pool.with { |client| client } }
          assert other.join(5), "return #{number}: the place is lost: #{struck}"
          refute_same first, other.value if name == :raises && struck.entered
          assert_equal [1, 1, false], [pool.available, pool.idle, pool.holds?], "return #{number}: #{struck}"
          assert_same other.value, pool.with { |client| client }
        end
      end
    end
  end

  def test_an_exception_at_each_return_of_a_wait
    (1..).each do |number|
      pool = NeverBlock::ConnectionPool.new(size: 1, timeout: nil) { Client.new(0) }
      over = false
      holder = Thread.new { pool.with { Thread.pass until over || pool.stats[:waiting] == 1 } }
      Thread.pass until pool.available.zero?
      struck = striking(number) { pool.with { |client| client } }
      over = true
      holder.join
      other = Thread.new { pool.with { |client| client } }
      assert other.join(5), "return #{number}: the place is lost: #{struck}"
      assert_equal [1, 0, false], [pool.available, pool.stats[:waiting], pool.holds?], "return #{number}: #{struck}"
      break unless struck
    end
  end

  def test_an_interrupted_opening_gives_its_place_back
    pool = NeverBlock::ConnectionPool.new(size: 1) { sleep }
    in_run do |scope|
      opening = parked(scope.spawn { pool.with { flunk } })
      opening.cancel
      opening.join
      assert_equal [1, 0], [pool.available, pool.idle]
      assert_kind_of NeverBlock::TimeoutError, raised { NeverBlock.timeout(0.001) { pool.checkout } }
      assert_equal [1, false], [pool.available, pool.holds?]
    end
  end

  def test_an_error_that_is_known_to_be_harmless_keeps_the_connection
    pool = NeverBlock::ConnectionPool.new(size: 1, keep_after: [KeyError, Timeout::Error]) { Client.new(0) }
    first = pool.with { |client| client }
    assert_kind_of KeyError, raised { pool.with { {}.fetch(:no) } }
    assert_same first, pool.with { |client| client }
    raised { pool.with { raise Timeout::Error } }
    refute_same first, pool.with { |client| client }
  end

  def test_a_callable_judges_errors
    seen = nil
    pool = NeverBlock::ConnectionPool.new(size: 1, keep_after: ->(*arguments) { seen = arguments }) { Client.new(0) }
    error = raised { pool.with { raise "no" } }
    assert_equal [error, pool.with { |client| client }], seen
    seen = nil
    raised { pool.with { raise NotImplementedError } }
    assert_nil seen
  end

  slow "an end's second"
  def test_a_connection_that_does_not_end_holds_up_its_user_for_a_second_at_most
    closing = Class.new { def close = sleep }
    pool = NeverBlock::ConnectionPool.new(size: 1) { closing.new }
    in_run do |scope|
      user = parked(scope.spawn { pool.with { sleep } })
      waiter = parked(scope.spawn { pool.with { :own } })
      user.cancel
      assert_equal :own, waiter.value
      assert user.alive?, "the waiter has not waited for that end"
    end
  end

  def test_an_end_that_fails_is_not_told
    failing = Class.new { def close = raise(IOError, "closed already") }
    pool = NeverBlock::ConnectionPool.new(size: 1) { failing.new }
    assert_equal "no", raised { pool.with { raise "no" } }.message
    assert_equal 1, pool.available
  end

  Strike = Struct.new(:at, :entered) do
    def to_s = at
  end

  # @param number [Integer] of the return at which {Struck} is raised
  # @return [Strike, nil] nil: there are fewer
  def striking(number)
    strike, count, entered = nil, 0, false
    trace = TracePoint.new(:return, :b_return, :c_return) do |point|
      entered = true if point.event != :c_return && point.path == __FILE__
      next if point.event == :c_return || !point.path.include?("lib/neverblock/connection_pool")
      next if strike || (count += 1) < number
      strike = Strike.new("#{point.method_id} in #{File.basename(point.path)}:#{point.lineno}", entered)
      raise Struck
    end
    raised { trace.enable(target_thread: Thread.current) { yield } }
    strike
  end

  # Wherever the exception arrives, a place is neither lost nor given twice, and no connection of an interrupted user
  # has another one.
  chaos "random interruptions"
  def test_interruptions_at_any_moment
    client = Struct.new(:users, :dirty) { define_method(:close) { Thread.pass } }
    pool = NeverBlock::ConnectionPool.new(size: 2, timeout: nil) { client.new(0, false) }
    faults = []
    use = proc do
      pool.with do |connection|
        faults << :dirty if connection.dirty
        faults << :shared if (connection.users += 1) > 1
        connection.dirty = true
        Thread.pass
        connection.users -= 1
        connection.dirty = false
      end
    end
    struck = Class.new(StandardError)
    over, gate = false, Thread::Queue.new
    threads = Array.new(6) do
      Thread.new do
        Thread.handle_interrupt(struck => :never) do
          until over
            begin
              Thread.handle_interrupt(struck => :immediate, &use)
            rescue struck
              nil
            end
          end
          gate.pop
        end
      rescue struck
        nil # it came after the end
      end
    end
    wait_until("the first uses") { pool.stats[:opened] >= 2 }
    wait_until("a thousand interrupted uses") do
      100.times do
        thread = threads.sample
        rand(1..3).times { thread.raise(struck) } # also while the first unwinds
        Thread.pass
      end
      pool.stats[:interrupted] > 1_000
    end
    over = true
    wait_until("the end of all uses") { gate.num_waiting == 6 }
    assert_empty faults.tally
    fresh = Array.new(2) { Thread.new { pool.with { gate.pop } } }
    wait_until("two uses at a time, though none of the threads has ended") { gate.num_waiting == 8 }
    assert_equal [0, 0], [pool.available, pool.stats[:waiting]]
    gate.close
    [*threads, *fresh].each { |one| assert one.join(NeverBlockTest::LIMIT) }
    assert_operator pool.connections.size, :<=, 2
  end
end
