# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "timeout"

# Timeouts whose exception comes from the helper thread, since the block computes.
class TimeoutComputingTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  def compute(seconds)
    deadline = now + seconds
    nil while now < deadline
  end

  # The helper thread sends nothing meanwhile: it is raised at the mask's end.
  slow "it computes"
  def test_a_mask_defers_it_also_while_its_task_is_parked
    log = []
    in_run do |scope|
      other = scope.spawn { sleep(0.1) && :through }
      task = scope.spawn do
        Timeout.timeout(0.02, ArgumentError) do
          Thread.handle_interrupt(ArgumentError => :never) { (log << compute(0.1) << sleep(0.001)).clear << :masked }
          log << :never
        end
      end
      assert_kind_of ArgumentError, raised { task.value }
      assert_equal :through, other.value
    end
    assert_equal [:masked], log
  end

  def test_a_deferred_exception_leaves_the_block_at_its_end
    in_run do
      error = raised { Timeout.timeout(0.02, ArgumentError) { Thread.handle_interrupt(ArgumentError => :never) { compute(0.05) } } }
      assert_kind_of ArgumentError, error
      5.times { sleep 0.001 } # nothing comes later
    end
  end

  slow "it computes"
  # Found by fuzzing: the fiber that the loop had switched to last was taken for the one that computes.
  def test_a_suspended_enumerators_timeout_does_not_end_its_tasks_own_code
    in_run do
      enumerator = Enumerator.new do |items|
        Timeout.timeout(0.5) do
          sleep 0.001
          items << 1
          sleep 5
        end
      end
      enumerator.next
      compute(0.6)
      assert_kind_of Timeout::Error, raised { enumerator.next }
    end
  end

  def test_an_enumerator_that_has_never_waited_computes
    inner = Enumerator.new { |items| compute(5) && items << 1 }
    in_run do
      [-> { compute(5) }, -> { inner.next }].each do |code|
        error = raised { Enumerator.new { |items| Timeout.timeout(0.02) { code.call && items << 1 } }.next }
        assert_kind_of Timeout::Error, error
      end
    end
  end

  slow "it computes"
  def test_no_timeout_is_raised_after_its_block
    in_run do |scope|
      tasks = Array.new(3) do
        scope.spawn do
          10.times.count do |n|
            Timeout.timeout(0.005, IOError) { compute(0.004 * n) }
            sleep 0.001
            false
          rescue IOError
            true
          end
        end
      end
      tasks.each { |task| assert_includes 0..10, task.value }
    end
  end

  # The scope of an inner fiber was freed while it was being made.
  def test_timeouts_of_enumerators_under_gc_stress
    assert_equal "through\n", assert_ruby(<<~RUBY, limit: 60)
      require "neverblock"
      require "timeout"
      NeverBlock.run do
        GC.stress = true
        3.times { Enumerator.new { |yielder| Timeout.timeout(5, IOError) { yielder << 1 } }.next }
        GC.stress = false
      end
      puts "through"
    RUBY
  end

  def test_a_timeout_around_the_loops_fiber_prevents_a_deadlock_error
    assert_equal "Timeout::Error\n", assert_ruby(<<~RUBY)
      require "neverblock"
      require "timeout"
      begin
        Timeout.timeout(0.1) { Enumerator.new { |yielder| NeverBlock.run { Queue.new.pop } }.next }
      rescue Timeout::Error => error
        puts error.class
      end
    RUBY
  end
end
