# frozen_string_literal: true

require_relative "loops"
require_relative "raised"

module NeverBlockTest
  # For tests of the API: runs as users write them, each with a time limit.
  #
  #   class RaceTest < Minitest::Test
  #     include NeverBlockTest::Runs
  #     def test_one = assert_equal 1, in_run { NeverBlock.race(-> { 1 }) }
  #   end
  module Runs
    include Loops
    include Raised

    # NeverBlock.run on a thread of its own, with nothing in between: failures are raised in the test.
    # @return [Object] what `run` returned
    def in_run(limit: LOOP_LIMIT, **options, &block)
      on_thread(limit) do
        Thread.current.report_on_exception = false
        NeverBlock.run(**options, &block)
      end
    end

    # Inside a loop: lets other fibers run until the task waits.
    # @return [NeverBlock::Task] the task
    def parked(task)
      pass_until("the wait of #{task.inspect}") { task.state == :running && task.waits_for }
      task
    end

    # Nothing is left of the run in the calling thread's kept loop.
    def assert_nothing_left(scheduler)
      left = scheduler.statistics.slice(:parked, :tasks, :timers, :interests, :jobs, :fibers)
      assert_equal({parked: 0, tasks: 0, timers: 0, interests: 0, jobs: 0, fibers: 0}, left)
    end
  end
end
