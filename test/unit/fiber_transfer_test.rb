# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "timeout"

# Fibers of a task's own that transfer to one another: what becomes of the task when one of them waits, ends or is struck.
class FiberTransferTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  # R4 of the runtime's review: this crashed.
  def test_a_timeout_around_a_transfer_waits_until_its_fiber_goes_on
    reached = in_run do
      second = nil
      log = []
      first = Fiber.new { Timeout.timeout(0.005) { second.transfer } && log << :first }
      second = Fiber.new { sleep(0.02) && log << :second && first.transfer(true) }
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

  def test_what_a_fiber_that_was_transferred_to_raises_reaches_the_task
    in_run do
      failing = Fiber.new { sleep(0.001) && raise(IOError, "there") }
      assert_equal "there", raised { failing.transfer }.message
      sleep 0.001 # the task goes on as before
    end
  end

  def test_a_fiber_that_was_transferred_to_and_ends_gives_the_task_back
    in_run do |scope|
      ended = scope.spawn { Fiber.new { sleep 0.001 }.transfer && :never || :went_on }
      assert_equal :went_on, ended.value
      behind = scope.spawn do
        ending = Fiber.new { sleep 0.001 }
        Fiber.new { ending.transfer }.resume
      end
      assert_match(/end it with a transfer back/, raised { behind.value }.message)
    end
  end

  def test_a_timeout_of_the_task_ends_what_it_transferred_to
    in_run do
      assert_kind_of Timeout::Error, raised { Timeout.timeout(0.005) { Fiber.new { sleep }.transfer } }
    end
  end

  %i[raise kill].each do |how|
    define_method("test_fiber_#{how}_at_a_task_behind_a_transfer_lets_the_caller_go_on") do
      log = []
      in_run do |scope|
        task = parked(scope.spawn do
          first = nil
          second = Fiber.new { sleep(0.005) || first.transfer }
          first = Fiber.new { second.transfer }
          first.resume
        rescue RuntimeError
          log << :rescued
        ensure
          log << :ended
        end)
        scope.spawn { ((how == :raise) ? task.fiber.raise("struck") : task.fiber.kill) && nil || log << :struck }.join
        refute_predicate task, :alive?
        sleep 0.01 # the wait of the second fiber would be over
      end
      assert_equal((how == :raise) ? %i[ended rescued struck] : %i[ended struck], log.sort)
    end
  end
end
