# frozen_string_literal: true

require "test_helper"
require "support/runs"

# Fiber#raise and Fiber#kill at a task that an unlock, a push or a pop has just woken: core wakes no other task instead,
# so this one takes the lock or item, and is unwound at its next wait.
class WokenAndStruckTest < Minitest::Test
  include NeverBlockTest::Runs

  WAYS = {raise: ->(task) { task.fiber.raise(IOError, "struck") }, kill: ->(task) { task.fiber.kill }}.freeze

  WAYS.each do |way, strike|
    define_method("test_a_mutex_goes_on_after_#{way}") do
      lock = Thread::Mutex.new
      log = taken(strike, -> { lock.lock }, -> { lock.unlock }) { |name, list| lock.synchronize { list << name } }
      assert_equal %i[first second], log
      refute_predicate lock, :locked?
    end

    define_method("test_no_item_is_left_behind_after_#{way}") do
      queue = Thread::Queue.new
      log = taken(strike, -> {}, -> { queue << 1 }, -> { queue << 2 }) { |name, list| list << name << queue.pop }
      assert_equal [:first, :second, 1, 2], log
      assert_empty queue
    end

    define_method("test_no_room_is_left_behind_after_#{way}") do
      queue = Thread::SizedQueue.new(1)
      log = taken(strike, -> { queue << 0 }, -> { queue.pop }, -> { queue.pop }) { |name, list| (queue << name) && list << name }
      assert_equal %i[first second], log
      assert_equal :second, queue.pop(true)
    end

    define_method("test_a_condition_s_signal_is_not_lost_by_#{way}") do
      lock, condition = Thread::Mutex.new, Thread::ConditionVariable.new
      signal = -> { lock.synchronize { condition.signal } }
      log = taken(strike, -> {}, signal, signal) { |name, list| lock.synchronize { condition.wait(lock) && list << name } }
      assert_equal %i[first second], log
    end
  end

  # Ruby kills a fiber once: waits in its ensure blocks must not be interrupted again to wait for a second kill, which
  # never comes.
  def test_a_task_killed_as_it_is_woken_waits_in_its_ensures
    unwound do |scope, queue, wait|
      task = parked(scope.spawn do
        queue.pop
        sleep
      ensure
        wait.call
      end)
      queue << 1
      assert task.fiber.kill
      task
    end
  end

  def test_a_task_killed_again_as_its_ensure_is_woken_waits_in_its_ensures
    unwound do |scope, queue, wait|
      task = parked(scope.spawn do
        sleep
      ensure
        begin
          queue.pop # the kill ends it: Ruby raises it at each resume of the fiber
        ensure
          wait.call
        end
      end)
      assert task.fiber.kill
      queue << 1
      refute task.fiber.kill
      task
    end
  end

  def test_several_exceptions_are_raised_in_sequence
    in_run do |scope|
      queue = Thread::Queue.new
      task = parked(scope.spawn { [queue.pop, raised { sleep }.message, raised { sleep }.message] })
      queue << 1
      task.fiber.raise("one")
      task.fiber.raise(IOError, "two")
      assert_equal [1, "one", "two"], task.value
    end
  end

  private

  # The block's task waits for a descriptor while it unwinds.
  def unwound
    in_run do |scope|
      IO.pipe do |reader, writer|
        task = yield scope, Thread::Queue.new, -> { reader.wait_readable }
        pass_until("the wait of its ensure") { task.waits_for.to_s.include?("readable") }
        writer << "a"
        pass_until("the task to end") { !task.alive? }
        assert_equal :cancelled, task.state
      end
    end
  end

  # Two tasks wait for the same thing; the first is woken and interrupted at once.
  # @return [Array] the block's log
  def taken(strike, prepare, wake, *further, &block)
    log = []
    in_run do |scope|
      prepare.call
      went_on = false
      first = scope.spawn do
        block.call(:first, log)
        sleep
        went_on = true
      rescue IOError
        log << :swallowed unless $!.message == "struck"
      end
      parked(first)
      second = parked(scope.spawn { block.call(:second, log) })
      wake.call
      strike.call(first)
      further.each(&:call)
      second.join
      pass_until("the first to be unwound") { !first.alive? }
      refute went_on
    end
    log
  end
end
