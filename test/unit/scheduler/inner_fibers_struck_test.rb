# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

# Fiber#raise and Fiber#kill at a task that waits inside an Enumerator: Ruby transfers to the Enumerator's fiber, and no
# hook is told of the caller.
class InnerFibersStruckTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  STRIKES = {"raise" => ->(fiber) { fiber.raise(IOError, "struck") }, "kill" => :kill.to_proc}.freeze

  # The caller's position, in the fiber that the loop switched to last.
  BEFORE = {
    "in its own fiber" => -> { sleep 0.1 },
    "in an Enumerator that has yielded" => -> { waiting { |yielder| yielder << 1 }.next },
    "in one that has ended" => -> { assert_raises(StopIteration) { waiting {}.next } },
    "in one that has failed" => -> { assert_raises(KeyError) { waiting { raise KeyError }.next } },
    "in one that yielded to another" => -> { waiting { |yielder| waiting { |inner| inner << 1 }.next.then { yielder << 2 } }.next }
  }.freeze

  STRIKES.each do |strike, call|
    BEFORE.each do |place, before|
      define_method("test_#{strike}_by_a_task_that_was_#{place}") do
        log = []
        in_run do |scope|
          victim = scope.spawn { enter_and_wait(log) }
          parked(victim)
          scope.spawn do
            instance_exec(&before)
            call.call(victim.fiber)
            log << :caller
            sleep 0.1
            log << :later
          end.join
          victim.join
        end
        assert_equal %i[caller inner later outer], log.sort
      end
    end
  end

  def test_by_the_code_of_an_enumerator
    STRIKES.each_value do |call|
      log = []
      in_run do |scope|
        victim = scope.spawn { enter_and_wait(log) }
        parked(victim)
        values = waiting do |yielder|
          call.call(victim.fiber)
          log << :caller
          sleep 0.1
          yielder << 1
        end
        assert_equal 1, values.next
        victim.join
      end
      assert_equal %i[caller inner outer], log.sort
    end
  end

  private

  # An Enumerator whose block waits first.
  def waiting
    Enumerator.new do |yielder|
      sleep 0.1
      yield yielder
    end
  end

  def enter_and_wait(log)
    Enumerator.new do
      sleep
    ensure
      log << :inner
    end.next
  rescue IOError
    nil
  ensure
    log << :outer
  end
end
