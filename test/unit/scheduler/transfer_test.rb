# frozen_string_literal: true

# engines: every - the fibers switch in the engine
require "test_helper"
require "support/runs"
require "support/virtual_time"

# Fiber#transfer inside tasks.
class TransferTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  # R4 of the runtime's review: a transfer to the fiber was the test for whether it had resumed another, and Ruby
  # crashed.
  def test_a_timeout_in_a_fiber_that_has_transferred_away
    assert_equal "end\n", assert_ruby(<<~RUBY)
      require "neverblock/testing"
      require "timeout"
      value = NeverBlock::Testing::VirtualClock.run do
        a = b = nil
        a = Fiber.new { Timeout.timeout(1) { b.transfer } && :end }
        b = Fiber.new { sleep(5) && a.transfer(true) }
        a.resume
      rescue Timeout::Error
        :end
      end
      puts value
    RUBY
  end

  # R4: it ended in a DeadlockError, with the task "running".
  def test_a_task_that_waits_in_a_transfers_target_can_be_cancelled
    [
      -> { Fiber.new { sleep }.transfer },
      -> { Fiber.new { Fiber.new { sleep }.transfer }.resume },
      -> { Fiber.new { Fiber.new { sleep }.transfer }.transfer }
    ].each do |wait|
      in_run do |scope|
        task = parked(scope.spawn(&wait))
        task.cancel
        assert_kind_of NeverBlock::Cancelled, raised { task.value }
        assert_predicate task, :cancelled?
      end
    end
  end

  def test_a_timeout_around_a_transfer
    in_run do
      error = raised { Timeout.timeout(5) { Fiber.new { sleep }.transfer } }
      assert_kind_of Timeout::Error, error
      assert_equal(1.0, seconds_of { sleep 1 })
    end
  end
end
