# frozen_string_literal: true

require "test_helper"
require "support/masks"

# What a mask of Thread.handle_interrupt defers in a task, until when, and what is not deferred. Masks among several
# fibers: handle_interrupt_fibers_test.rb.
class HandleInterruptTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Masks

  # ---- what a mask defers, and until when ----
  def test_it_is_raised_at_the_end_of_the_block
    each_kind do |log|
      mask(NEVER) { sleep(10) && log << :masked }
      log << :never
    end
  end

  def test_it_is_raised_at_the_end_of_the_outermost_mask
    each_kind do |log|
      mask(NEVER) do
        mask(NEVER) { sleep 2 }
        sleep(0.1) && log << :masked
      end
      log << :never
    end
  end

  def test_a_computing_block
    each_kind do |log|
      mask(NEVER) { sleep(0.2) && hold(2) && log << :masked }
      sleep 5
      log << :never
    end
  end

  def test_a_block_that_is_left_by_an_exception_or_a_throw
    each_kind do |log|
      raised_inside = begin
        mask(NEVER) { sleep(10) && (log << :masked) && raise(IOError) }
      rescue IOError
        :never
      end
      log << raised_inside
    end
    each_kind do |log|
      catch(:out) { mask(NEVER) { sleep(10) && (log << :masked) && throw(:out) } }
      log << :never
    end
  end

  def test_an_inner_immediate_lifts_the_mask
    each_kind do |log|
      mask(NEVER) { log << :masked && mask(LIFTED) { sleep(5) && log << :never } }
    end
  end

  # As in Ruby, the beginning of such a block checks for interrupts.
  def test_immediate_raises_a_deferred_exception
    each_kind do |log|
      mask(NEVER) do
        sleep(10) && log << :masked
        mask(LIFTED) { log << :never }
      end
    end
  end

  def test_an_ensure_around_immediate_waits_undisturbed
    each_kind do |log|
      mask(NEVER) do
        mask(LIFTED) { sleep 5 }
      ensure
        sleep(10) && log << :masked
      end
      log << :never
    end
  end

  def test_on_blocking_raises_it_only_at_a_wait
    each_kind do |log|
      mask(Exception => :on_blocking) { hold(3) && log << :masked && sleep(5) && log << :never }
    end
    each_kind do |log|
      mask(NEVER) do
        sleep 2
        mask(Exception => :on_blocking) { (log << :masked) && sleep(5) }
        log << :never
      end
    end
  end

  def test_masks_apply_by_exception_class
    in_run do |scope|
      gate = Queue.new
      task = parked(scope.spawn { mask(NeverBlock::Cancelled => :never) { gate << raised { Timeout.timeout(1) { sleep } } } })
      task.cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      assert_kind_of Timeout::Error, gate.pop
      task = parked(scope.spawn { Timeout.timeout(5) { mask(Timeout::ExitException => :never) { sleep } } })
      task.cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      task = scope.spawn { Timeout.timeout(0.1, KeyError) { mask(NEVER.merge(IndexError => :immediate)) { sleep } } }
      assert_kind_of KeyError, raised { task.value } # the nearest ancestor decides
    end
  end

  def test_it_is_raised_once
    log = []
    in_run do |scope|
      gate = Queue.new
      task = parked(scope.spawn do
        mask(NEVER) { gate.pop }
      rescue NeverBlock::Cancelled
        log << :cancelled << sleep(0.1)
        mask(NEVER) { log << :again }
        :went_on
      end)
      3.times { task.cancel }
      gate << 1
      assert_equal :went_on, task.value
    end
    assert_equal [:cancelled, 0, :again], log
  end

  # ---- exceptions that are not deferred ----
  def test_timeouts_that_began_inside_end_inside
    in_run do
      mask(NEVER) do
        assert_kind_of Timeout::Error, raised { Timeout.timeout(0.5) { sleep } }
        assert_kind_of NeverBlock::TimeoutError, raised { NB.timeout(0.5) { mask(LIFTED) { sleep } } }
        assert_kind_of KeyError, raised { Timeout.timeout(0.5, KeyError) { sleep } }
        assert_nil NB.move_on_after(0.5) { sleep }
        assert_nil Queue.new.pop(timeout: 0.5)
        assert_equal "no", raised { NeverBlock.run { NB.spawn { sleep(0.1) && raise("no") } && sleep } }.message
        assert_equal 1, NB.race(-> { sleep }, -> { 1 })
      end
    end
  end

  def test_a_task_that_was_spawned_inside_has_no_mask
    in_run do |scope|
      mask(NEVER) do
        task = parked(scope.spawn { sleep })
        task.cancel
        assert_predicate task.join, :cancelled?
      end
    end
  end

  def test_immediate_does_not_lift_a_shield
    log = []
    in_run do |scope|
      task = parked(scope.spawn { NB.shield { mask(LIFTED) { sleep(1) && log << :shielded } } && sleep })
      task.cancel
      assert_predicate task.join, :cancelled?
    end
    assert_equal [:shielded], log
  end

  def test_force
    log = []
    in_run do |scope|
      task = parked(scope.spawn do
        mask(Object => :never) { sleep }
      ensure
        log << :ensure
      end)
      task.cancel
      NB.pass
      assert_predicate task, :alive?
      task.cancel(force: true)
      assert_predicate task.join, :cancelled?
    end
    assert_equal [:ensure], log
  end

  def test_fiber_raise
    in_run do |scope|
      task = parked(scope.spawn { raised { mask(NEVER) { sleep } } })
      task.fiber.raise(IOError)
      assert_kind_of IOError, task.value
    end
  end

  def test_thread_kill_of_the_loop
    [NEVER, {Object => :never}].each do |given|
      ensured, started = Queue.new, Queue.new
      thread = Thread.new do
        NeverBlock.run do |scope|
          scope.spawn do
            mask(given) { (started << 1) && sleep }
          ensure
            ensured << 1
          end
        end
      end
      started.pop
      wait_until("the loop's wait") { thread.status == "sleep" }
      thread.kill
      assert thread.join(NeverBlockTest::LIMIT), "the loop did not end"
      assert_equal 1, ensured.size
    end
  end

  # The first waits for the mask's end, as it does for a shield; the second does not.
  slow "it starts Ruby"
  def test_a_second_term
    assert_equal "first\nforced\nSignalException\n", assert_ruby(<<~RUBY)
      require "neverblock"
      def signal = Process.detach(spawn("kill -TERM \#{Process.pid}"))
      begin
        NeverBlock.run do
          NB.spawn do
            Thread.handle_interrupt(Exception => :never) { sleep }
          ensure
            puts "forced"
          end
          NB.pass
          signal
          sleep
        ensure
          puts "first"
          signal
        end
      rescue SignalException => error
        puts error.class
      end
    RUBY
  end

  # ---- Ruby's own ----
  def test_values_and_errors_are_the_same_as_rubys
    [->(&call) { in_run(&call) }, ->(&call) { call.call }].each do |place|
      assert_equal 1, place.call { mask(NEVER) { 1 } }
      assert_equal 1, place.call { mask({}) { 1 } }
      assert_equal "no", raised { place.call { mask(NEVER) { raise "no" } } }.message
      assert_kind_of ArgumentError, raised { place.call { Thread.handle_interrupt(NEVER) } }
      assert_kind_of ArgumentError, raised { place.call { Thread.handle_interrupt { 1 } } }
      assert_kind_of ArgumentError, raised { place.call { mask(Exception => :now) { 1 } } }
      assert_kind_of TypeError, raised { place.call { mask(1) { 1 } } }
      assert_equal :broken, place.call { mask(NEVER) { break :broken } }
    end
  end

  def test_a_later_change_of_the_hash_does_not_change_the_mask
    in_run do |scope|
      given, gate = {Exception => :never}, Queue.new
      task = parked(scope.spawn { mask(given) { gate.pop && NB::Task.current.name = "masked" } })
      given[Exception] = :immediate
      task.cancel
      gate << 1
      assert_predicate task.join, :cancelled?
      assert_equal "masked", task.name
    end
  end

  # Found by the fuzzer: the limit replaced an outer timeout of plain Ruby, which was lost.
  def test_a_timeout_does_not_replace_an_interrupt_deferred_by_rubys_mask
    interrupt = Class.new(Exception) # standard:disable Lint/InheritException
    thread = Thread.new do
      NeverBlock.run do
        NB.move_on_after(0.1) do
          mask(NEVER) do
            Thread.current.raise(interrupt)
            hold(1)
          end
        end
        sleep
      end
    end
    thread.report_on_exception = false
    assert_raises(interrupt) { thread.join(NeverBlockTest::LIMIT) }
  ensure
    thread&.kill
  end
end
