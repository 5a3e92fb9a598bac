# frozen_string_literal: true

# engines: every - a cancelled wait is withdrawn from the back end

require "test_helper"
require "support/runs"
require "support/virtual_time"
require "timeout"

# A deadline that passes while a cancelled task unwinds. Only the deadline ends the waits in the ensure blocks here.
class CancelledAndLateTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  LateError = Class.new(StandardError)

  LIMITS = {
    "Timeout.timeout" => ->(&block) { Timeout.timeout(1, &block) },
    "Timeout.timeout with a class" => ->(&block) { Timeout.timeout(1, LateError, &block) },
    "NeverBlock.timeout" => ->(&block) { NeverBlock.timeout(1, &block) },
    "move_on_after" => ->(&block) { NeverBlock.move_on_after(1, &block) }
  }.freeze

  LIMITS.each do |name, limit|
    define_method("test_the_task_stays_cancelled: #{name}") do
      in_run do |scope|
        rounds = 0
        task = parked(scope.spawn { 3.times { (rounds += 1) && wait_twice(&limit) } })
        task.cancel("shutdown")
        error = raised { task.value }
        assert_kind_of NeverBlock::Cancelled, error
        assert_equal ["shutdown", 1], [error.reason, rounds]
      end
    end
  end

  # The clean-up has a limit of its own, which it is told of.
  LIMITS.each do |name, limit|
    define_method("test_a_limit_that_begins_in_the_clean_up_is_told: #{name}") do
      in_run do |scope|
        log = []
        task = parked(scope.spawn do
          sleep
        ensure
          begin
            log << limit.call { sleep }
          rescue Timeout::Error, LateError
            log << nil
          end
        end)
        task.cancel
        assert_kind_of NeverBlock::Cancelled, raised { task.value }
        assert_equal [nil], log
      end
    end
  end

  def test_a_scope_ends_although_its_worker_retries_for_ever
    error = raised do
      NeverBlock.run do |scope|
        parked(scope.spawn { loop { wait_twice(&LIMITS["Timeout.timeout"]) } })
        raise ArgumentError, "the others are cancelled"
      end
    end
    assert_kind_of ArgumentError, error
  end

  def test_outer_ensure_blocks_may_wait
    in_run do |scope|
      log = []
      task = parked(scope.spawn do
        wait_twice(&LIMITS["Timeout.timeout"])
      ensure
        sleep 0.1
        log << :waited
      end)
      task.cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      assert_equal [:waited], log
    end
  end

  def test_a_timeout_whose_block_swallows_the_cancellation_then_ends_it
    in_run do |scope|
      task = parked(scope.spawn do
        Timeout.timeout(1) do
          begin
            begin
              sleep
            ensure
              sleep
            end
          rescue NeverBlock::Cancelled
            nil
          end
          sleep
        end
      rescue Timeout::Error
        :late
      end)
      task.cancel
      assert_equal :late, task.value
    end
  end

  private

  # The second wait is in the clean-up.
  def wait_twice(&limit)
    limit.call do
      sleep
    ensure
      sleep
    end
  rescue Timeout::Error, LateError
    nil
  end
end
