# frozen_string_literal: true

# engines: every - each engine sets the kernel's timer in its own way
require "test_helper"
require "support/loops"

# On the real clock, each kind of wait lasts at least its time, and the loop sleeps in the kernel until then. The other
# tests of times are on a virtual clock, on which the loop doesn't sleep.
class KernelTimersTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  SECONDS = 0.0123

  # Each takes SECONDS or more.
  WAITS = {
    "sleep" => -> { sleep SECONDS }, # real: the kernel's timer
    "sleep of a Rational" => -> { sleep SECONDS.rationalize }, # real: the kernel's timer
    "Mutex#sleep" => -> { Mutex.new.then { |mutex| mutex.synchronize { mutex.sleep(SECONDS) } } }, # real: the kernel's timer
    "ConditionVariable#wait" => -> { Mutex.new.then { |mutex| mutex.synchronize { ConditionVariable.new.wait(mutex, SECONDS) } } },
    "Queue#pop" => -> { assert_nil Queue.new.pop(timeout: SECONDS) },
    "SizedQueue#push" => -> { assert_nil SizedQueue.new(1).push(1).push(2, timeout: SECONDS) },
    "Thread#join" => -> { assert_nil Thread.new { Queue.new.pop }.then { |thread| thread.join(SECONDS).tap { thread.kill } } },
    "Task#join" => -> { assert_nil NB.spawn(transient: true) { Queue.new.pop }.join(SECONDS) },
    "IO#wait_readable" => -> { assert_nil @reader.wait_readable(SECONDS) },
    "IO#timeout" => -> { (@reader.timeout = SECONDS) && assert_raises(IO::TimeoutError) { @reader.read(1) } },
    "IO.select" => -> { assert_nil IO.select([@reader], nil, nil, SECONDS) },
    "Timeout.timeout" => -> { assert_raises(Timeout::Error) { Timeout.timeout(SECONDS) { Queue.new.pop } } },
    "NeverBlock.timeout" => -> { assert_raises(NeverBlock::TimeoutError) { NB.timeout(SECONDS) { Queue.new.pop } } },
    "NeverBlock.timeout around a read" => -> { assert_raises(NeverBlock::TimeoutError) { NB.timeout(SECONDS) { @reader.read(1) } } },
    "the hook block" => -> { assert_equal false, Fiber.scheduler.block(:x, SECONDS) },
    "the hook io_wait" => -> { assert_equal false, Fiber.scheduler.io_wait(@reader, IO::READABLE, SECONDS) },
    "the hook kernel_sleep" => -> { assert_equal false, Fiber.scheduler.kernel_sleep(SECONDS) }
  }.freeze

  def setup
    @reader, @writer = IO.pipe
  end

  def teardown = [@reader, @writer].each(&:close)

  WAITS.each do |name, wait|
    define_method(:"test_#{name.tr(" ", "_")}_is_never_too_short") do
      in_loop do
        began = now
        instance_exec(&wait)
        assert_operator now - began, :>=, SECONDS
      end
    end
  end

  def test_never_too_short
    in_loop do
      [0.0001, 0.001, 0.0123, Rational(1, 100)].each do |seconds|
        began = now
        sleep(seconds) # real: the kernel's timer
        assert_operator now - began, :>=, seconds.to_f
      end
    end
  end

  slow "it looks at a loop that has nothing to do for half a second"
  def test_idle_loops_use_no_cpu
    in_loop do |scope|
      scope.spawn { @reader.read }
      scope.spawn { Queue.new.pop }
      scope.spawn { sleep } # real: it waits for its cancellation
      NB.pass
      polls = nil
      used = cpu_time do
        before = Fiber.scheduler.statistics[:polls]
        sleep 0.5 # real: the kernel's timer
        polls = Fiber.scheduler.statistics[:polls] - before
      end
      assert_operator polls, :<, 20
      assert_operator used, :<, 0.25
      scope.cancel
    end
  end
end
