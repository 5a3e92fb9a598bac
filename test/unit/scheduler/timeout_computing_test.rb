# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "timeout"

# Timeouts with an exception from the helper thread, since the block computes. On the real clock: on a virtual one
# computing takes no time.
class TimeoutComputingTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  class Own < StandardError; end

  NEVER = {Exception => :never}.freeze

  def expired(seconds = 0.01, klass = nil, &block) = raised { Timeout.timeout(seconds, *klass, &block) }

  def compute(seconds)
    deadline = now + seconds
    nil while now < deadline
  end

  # @return [Array<Symbol>] the log of the block, run again if its limit passed before its mask began: `:began`
  def until_masked
    loop do
      yield log = []
      return log if log.any?
    end
  end

  # The helper thread sends nothing in the meantime: the exception is raised at the mask's end.
  slow "it computes"
  def test_a_mask_defers_it_also_while_its_task_is_parked
    done = until_masked do |log|
      in_run do |scope|
        gate = Thread::Queue.new
        other = scope.spawn { gate.pop && :through }
        task = scope.spawn do
          Timeout.timeout(0.02, ArgumentError) do
            Thread.handle_interrupt(ArgumentError => :never) { (log << :began) && compute(0.1) || nap && log << :masked }
            log << :never
          end
        end
        assert_kind_of ArgumentError, raised { task.value }
        gate << 1
        assert_equal :through, other.value
      end
    end
    assert_equal %i[began masked], done
  end

  def test_a_deferred_exception_leaves_the_block_at_its_end
    in_run do
      error = raised { Timeout.timeout(0.02, ArgumentError) { Thread.handle_interrupt(ArgumentError => :never) { compute(0.05) } } }
      assert_kind_of ArgumentError, error
      5.times { nap } # no exception comes later
    end
  end

  slow "it computes"
  # Found by fuzzing: the fiber that the loop had switched to last was taken for the computing one.
  def test_a_suspended_enumerators_timeout_does_not_end_its_tasks_own_code
    in_run do
      begin
        enumerator = Enumerator.new do |items|
          Timeout.timeout(0.1) do
            nap
            items << 1
            sleep
          end
        end
        enumerator.next
      rescue Timeout::Error # too early: the machine is busy
        retry
      end
      compute(0.2)
      assert_kind_of Timeout::Error, raised { enumerator.next }
    end
  end

  def test_an_enumerator_that_has_never_waited_computes
    inner = Enumerator.new { loop {} }
    in_run do
      [-> { loop {} }, -> { inner.next }].each do |code|
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
            nap
            false
          rescue IOError
            true
          end
        end
      end
      tasks.each { |task| assert_includes 0..10, task.value }
    end
  end

  # Regression: the scope of an inner fiber was freed during its creation.
  def test_timeouts_of_enumerators_under_gc_stress
    assert_equal "through\n", assert_ruby(<<~RUBY)
      require "neverblock"
      require "timeout"
      NeverBlock.run do
        GC.stress = true
        3.times { Enumerator.new { |yielder| Timeout.timeout(60, IOError) { yielder << 1 } }.next }
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

  slow "it computes until a timeout ends it"
  def test_a_block_that_computes
    in_run do
      assert_kind_of Timeout::Error, expired(0.05) { loop {} }
      assert_kind_of NeverBlock::TimeoutError, raised { NeverBlock.timeout(0.05) { loop {} } }
      assert_kind_of Own, expired(0.05, Own) { loop {} }
      nap
    end
  end

  def test_a_block_that_computes_beside_others_that_have_timeouts_too
    in_run do |scope|
      gate = Thread::Queue.new
      others = Array.new(3) { scope.spawn { Timeout.timeout(600) { gate.pop && :unharmed } } }
      busy = scope.spawn { expired(0.05) { loop {} }.class }
      assert_equal Timeout::Error, busy.value
      3.times { gate << 1 }
      assert_equal [:unharmed] * 3, others.map(&:value)
    end
  end

  slow "it computes until a timeout ends it"
  def test_ensures_of_a_block_that_computes_may_wait
    in_run do
      log = []
      error = expired(0.05) do
        loop {}
      ensure
        nap(0.15) # longer than the helper thread's pause
        log << :ensure
      end
      assert_kind_of Timeout::Error, error
      assert_equal [:ensure], log
    end
  end

  slow "it computes until a timeout ends it"
  def test_a_block_that_computes_cannot_rescue_it_either
    in_run do
      log = []
      swallow = lambda do
        loop {}
      rescue Exception # standard:disable Lint/RescueException -- what must not help
        nap # a rescue may wait as an ensure may
        log << :rescued
      end
      waits = expired(0.05) { swallow.call && nap && log << :never }
      ends = expired(0.05) { swallow.call && :value }
      nested = expired(0.05) {
        begin
          swallow.call
          sleep
        ensure
          nap && log << :ensure
        end
      }
      assert_equal [Timeout::Error] * 3, [waits, ends, nested].map(&:class)
      assert_equal %i[rescued rescued rescued ensure], log
    end
  end

  def test_a_wait_inside_an_enumerator_cannot_rescue_it_either
    in_run do
      swallow = lambda do
        Enumerator.new do |yielder|
          sleep
        rescue Exception # standard:disable Lint/RescueException -- what must not help
          yielder << :swallowed
        end.next
      end
      assert_kind_of Timeout::Error, expired { swallow.call && sleep }
      assert_kind_of Timeout::Error, expired { swallow.call }
    end
  end

  slow "it computes until a timeout ends it"
  def test_nested_ones_around_a_block_that_computes
    in_run do
      inner = nil
      error = raised do
        NeverBlock.timeout(0.05) do
          Timeout.timeout(60) { loop {} }
        rescue Timeout::Error => inner
        end
      end
      assert_kind_of NeverBlock::TimeoutError, error
      assert_nil inner
      assert_equal :rescued, NeverBlock.timeout(60) { expired(0.05) { loop {} } && :rescued }
    end
  end

  def test_a_fiber_inside_that_computes
    in_run do
      assert_kind_of Timeout::Error, expired(0.05) { Enumerator.new { loop {} }.next }
    end
  end

  def test_a_blocking_section
    in_run do
      assert_kind_of Timeout::Error, expired(0.05) { NB.neverblock(false) { sleep } }
      assert_kind_of Timeout::Error, NB.neverblock(false) { expired(0.05) { sleep } }
    end
  end

  slow "it computes until a timeout ends it"
  def test_many_computing_blocks_in_sequence
    in_run do |scope|
      tasks = Array.new(5) { scope.spawn { expired(0.03) { loop {} }.class } }
      assert_equal [Timeout::Error] * 5, tasks.map(&:value)
    end
  end

  # Regression: its exception, sent by the helper thread, was raised in the masked task.
  def test_a_timeout_that_computes_beside_a_masked_task
    in_run do |scope|
      gate = Queue.new
      masked = parked(scope.spawn { Thread.handle_interrupt(NEVER) { gate.pop } && :unharmed })
      computing = scope.spawn { Timeout.timeout(0.01) { compute(0.2) || (gate << 1) && sleep } }
      assert_kind_of Timeout::Error, raised { computing.value }
      assert_equal :unharmed, masked.value
    end
  end

  # The end of the other mask removes this one from the thread.
  def test_a_masked_task_that_computes_after_another_mask_has_ended
    done = until_masked do |log|
      in_run do |scope|
        gate = Queue.new
        other = parked(scope.spawn { Thread.handle_interrupt(KeyError => :never) { gate.pop } })
        task = scope.spawn do
          Timeout.timeout(0.01) do
            Thread.handle_interrupt(NEVER) { (log << :began) && (gate << 1) && other.join && compute(0.2) || log << :committed }
            sleep
          end
        end
        assert_kind_of Timeout::Error, raised { task.value }
        gate << 1
      end
    end
    assert_equal %i[began committed], done
  end
end
