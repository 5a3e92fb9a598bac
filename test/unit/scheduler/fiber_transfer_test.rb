# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"
require "timeout"

# Fibers of a task that transfer to one another: the task's fate when one of them waits, ends or is interrupted.
class FiberTransferTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  # R4 of the runtime's review: this crashed.
  def test_a_timeout_around_a_transfer_waits_until_its_fiber_continues
    reached = in_run do
      second = nil
      log = []
      first = Fiber.new { Timeout.timeout(0.5) { second.transfer } && log << :first }
      second = Fiber.new { sleep(2) && log << :second && first.transfer(true) }
      first.resume
      log
    end
    assert_equal %i[second first], reached
  end

  def test_cancelling_a_task_behind_a_transfer_unwinds_it
    in_run do |scope|
      log = []
      task = parked(scope.spawn do
        behind = Fiber.new { sleep }
        inner = Fiber.new do
          behind.transfer
        ensure
          log << :inner
        end
        inner.resume
      ensure
        log << :task
      end)
      task.cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      assert_equal %i[inner task], log
    end
  end

  def test_an_exception_in_the_target_of_a_transfer_reaches_the_task
    in_run do
      failing = Fiber.new { sleep(0.1) && raise(IOError, "there") }
      assert_equal "there", raised { failing.transfer }.message
      sleep 0.1 # the task goes on
    end
  end

  def test_the_end_of_a_transfers_target_returns_to_the_task
    in_run do |scope|
      ended = scope.spawn { Fiber.new { sleep 0.1 }.transfer && :never || :went_on }
      assert_equal :went_on, ended.value
      behind = scope.spawn do
        ending = Fiber.new { sleep 0.1 }
        Fiber.new { ending.transfer }.resume
      end
      assert_match(/end it with a transfer back/, raised { behind.value }.message)
    end
  end

  def test_a_timeout_of_the_task_ends_the_target_of_its_transfer
    in_run do
      assert_kind_of Timeout::Error, raised { Timeout.timeout(0.5) { Fiber.new { sleep }.transfer } }
    end
  end

  %i[raise kill].each do |how|
    define_method("test_fiber_#{how}_at_a_task_behind_a_transfer_lets_the_caller_go_on") do
      log, gate = [], Queue.new
      in_run do |scope|
        task = parked(scope.spawn do
          first = nil
          second = Fiber.new { gate.pop && first.transfer }
          first = Fiber.new { second.transfer }
          first.resume
        rescue RuntimeError
          log << :rescued
        ensure
          log << :ended
        end)
        scope.spawn { ((how == :raise) ? task.fiber.raise("struck") : task.fiber.kill) && nil || log << :struck }.join
        refute_predicate task, :alive?
        gate << true # the second fiber waits for it
        3.times { NB.pass }
      end
      assert_equal((how == :raise) ? %i[ended rescued struck] : %i[ended struck], log.sort)
    end
  end

  # Found by the fuzzer: the waiting fiber was left behind with its lock, and resumed later, into a dead fiber.
  def test_fiber_raise_at_a_task_behind_a_transfer_is_raised_where_it_waits
    in_run do |scope|
      log = []
      lock = Thread::Mutex.new
      task = parked(scope.spawn { lock.synchronize { hand_over(log) { sleep } } })
      scope.spawn { task.fiber.raise(IOError, "struck") }.join
      assert_equal "struck", task.value
      assert_equal %i[second IOError], log
      refute_predicate lock, :locked?
    end
  end

  # A fiber of the raising code that the loop has never switched to.
  def test_fiber_raise_from_the_target_of_a_transfer
    in_run do |scope|
      log = []
      task = parked(scope.spawn { hand_over(log) { sleep } })
      raiser = scope.spawn { hand_over(log) { task.fiber.raise(IOError, "struck") && nil || log << :went_on } && nil || :returned }
      assert_equal :returned, raiser.value
      assert_equal "struck", task.value
      assert_equal %i[IOError second went_on], log.sort
    end
  end

  def test_fiber_raise_from_an_enumerator_to_a_task_in_an_enumerator
    in_run do |scope|
      task = parked(scope.spawn { raised { Enumerator.new { sleep }.next } })
      raiser = scope.spawn { Enumerator.new { |yielder| task.fiber.raise(IOError, "struck") && nil || yielder << :went_on }.next }
      assert_equal :went_on, raiser.value
      assert_equal "struck", task.value.message
    end
  end

  # Its ensure blocks may wait, unlike those of a fiber that Ruby kills.
  def test_fiber_kill_at_a_task_behind_a_transfer_unwinds_it
    in_run do |scope|
      log = []
      task = parked(scope.spawn do
        hand_over(log) { NeverBlock.run { |inner| inner.spawn { sleep } } }
        log << :never
      end)
      assert_same task.fiber, task.fiber.kill
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      assert_predicate task, :cancelled?
      assert_equal [:second, :"NeverBlock::Cancelled"], log
      assert_empty scope.tasks
    end
  end

  def test_fiber_kill_that_is_swallowed_ends_the_task_at_its_next_wait
    in_run do |scope|
      log = []
      task = parked(scope.spawn do
        raised { Fiber.new { sleep }.transfer }
        log << :swallowed
        raised { sleep }
        log << :never
      ensure
        sleep 0.1
        log << :ensure
      end)
      task.fiber.kill
      assert_equal false, task.fiber.kill
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      assert_equal %i[swallowed], log
    end
  end

  # Ruby's own tests of Fiber#transfer return to their origin, which isn't possible for a task's fiber.
  def test_a_transfer_back_to_the_fiber_of_the_task
    in_run do
      own = Fiber.current
      assert_equal 5, Fiber.new { sleep(0.1) && own.transfer(5) }.transfer
      assert_equal [1, 2], Fiber.new { own.transfer(1, 2) }.transfer
      assert_raises(FiberError) { Fiber.new { own.transfer }.resume }
      sleep 0.1
    end
  end

  # Found by the fuzzer: the thread never ended.
  def test_thread_kill_in_the_target_of_a_transfer_unwinds_the_task
    log = Thread::Queue.new
    thread = Thread.new do
      NeverBlock.run do |scope|
        scope.spawn do
          hand_over([]) { Thread.current.kill }
        ensure
          sleep 0.1
          log << :task
        end
      ensure
        log << :run
      end
    end
    assert thread.join(NeverBlockTest::LIMIT), "the thread has not ended"
    assert_nil thread.value
    assert_equal %i[run task], Array.new(log.size) { log.pop }.sort
  end

  private

  # One fiber transfers to another, which transfers back, whatever happens in it.
  # @return [String, nil] the message of the block's exception
  def hand_over(log)
    first = failure = nil
    second = Fiber.new do
      begin
        yield
      rescue Exception => error # standard:disable Lint/RescueException -- raised again by the first one
        failure = error
        log << :second << error.class.name.to_sym
      end
      first.transfer
    end
    first = Fiber.new do
      second.transfer
      raise failure if failure
    end
    first.resume
  rescue IOError => error
    error.message
  end
end
