# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "timeout"

# Masks of Thread.handle_interrupt in tasks, and exceptions raised in those tasks.
class HandleInterruptTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  NEVER = {Exception => :never}.freeze
  LIFTED = {Exception => :immediate}.freeze
  KINDS = {
    "cancelled" => ->(&block) { NB.spawn(&block).tap { |task| NB.spawn { sleep(0.005) && task.cancel } }.value },
    "timed out" => ->(&block) { NB.spawn { Timeout.timeout(0.005, &block) }.value },
    "timed out with a class" => ->(&block) { NB.spawn { Timeout.timeout(0.005, ArgumentError, &block) }.value },
    "late" => ->(&block) { NB.spawn { NB.move_on_after(0.005, &block) }.value },
    "unwound" => ->(&block) { NB.spawn { NeverBlock.run { NB.spawn { sleep(0.005) && raise("no") } && block.call } }.value }
  }.freeze

  def mask(...) = Thread.handle_interrupt(...)

  def compute(seconds)
    deadline = now + seconds
    nil while now < deadline
  end

  # Runs the block for each way to interrupt a task.
  def each_kind
    KINDS.each do |name, way|
      log = []
      in_run { raised { way.call { |*| yield log } } }
      assert_equal %i[masked], log, name
    end
  end

  # ---- what a mask defers, and until when ----
  def test_it_is_raised_at_the_end_of_the_block
    each_kind do |log|
      mask(NEVER) { sleep(0.02) && log << :masked }
      log << :never
    end
  end

  def test_it_is_raised_at_the_end_of_the_outermost_mask
    each_kind do |log|
      mask(NEVER) do
        mask(NEVER) { sleep 0.02 }
        sleep(0.001) && log << :masked
      end
      log << :never
    end
  end

  def test_a_computing_block
    each_kind do |log|
      mask(NEVER) { sleep(0.002) && compute(0.02) || log << :masked }
      sleep 5
      log << :never
    end
  end

  def test_a_block_that_is_left_by_an_exception_or_a_throw
    each_kind do |log|
      raised_inside = begin
        mask(NEVER) { sleep(0.02) && (log << :masked) && raise(IOError) }
      rescue IOError
        :never
      end
      log << raised_inside
    end
    each_kind do |log|
      catch(:out) { mask(NEVER) { sleep(0.02) && (log << :masked) && throw(:out) } }
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
        sleep(0.02) && log << :masked
        mask(LIFTED) { log << :never }
      end
    end
  end

  def test_an_ensure_around_immediate_waits_undisturbed
    each_kind do |log|
      mask(NEVER) do
        mask(LIFTED) { sleep 5 }
      ensure
        sleep(0.01) && log << :masked
      end
      log << :never
    end
  end

  slow "it computes"
  def test_on_blocking_raises_it_only_at_a_wait
    each_kind do |log|
      mask(Exception => :on_blocking) { (compute(0.03) || log << :masked) && sleep(5) && log << :never }
    end
    each_kind do |log|
      mask(NEVER) do
        sleep 0.02
        mask(Exception => :on_blocking) { (log << :masked) && sleep(5) }
        log << :never
      end
    end
  end

  def test_masks_apply_by_exception_class
    in_run do |scope|
      gate = Queue.new
      task = parked(scope.spawn { mask(NeverBlock::Cancelled => :never) { gate << raised { Timeout.timeout(0.01) { sleep } } } })
      task.cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      assert_kind_of Timeout::Error, gate.pop
      task = parked(scope.spawn { Timeout.timeout(5) { mask(Timeout::ExitException => :never) { sleep } } })
      task.cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      task = scope.spawn { Timeout.timeout(0.001, KeyError) { mask(NEVER.merge(IndexError => :immediate)) { sleep } } }
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
        log << :cancelled << sleep(0.001)
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
        assert_kind_of Timeout::Error, raised { Timeout.timeout(0.005) { sleep } }
        assert_kind_of NeverBlock::TimeoutError, raised { NB.timeout(0.005) { mask(LIFTED) { sleep } } }
        assert_kind_of KeyError, raised { Timeout.timeout(0.005, KeyError) { sleep } }
        assert_nil NB.move_on_after(0.005) { sleep }
        assert_nil Queue.new.pop(timeout: 0.005)
        assert_equal "no", raised { NeverBlock.run { NB.spawn { sleep(0.001) && raise("no") } && sleep } }.message
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
      task = parked(scope.spawn { NB.shield { mask(LIFTED) { sleep(0.01) && log << :shielded } } && sleep })
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
      assert thread.join(10), "the loop did not end"
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

  # ---- pools ----
  def test_a_resource_is_returned_while_its_lock_is_taken
    free, lock = [:connection], Mutex.new
    in_run do |scope|
      held = Queue.new
      scope.spawn { lock.synchronize { held.pop } }
      task = parked(scope.spawn do
        mask(NEVER) do
          connection = free.pop
          begin
            mask(LIFTED) { sleep 0.001 }
          ensure
            lock.synchronize { free << connection }
          end
        end
      end)
      pass_until("the wait for the lock") { task.waits_for.include?("Mutex") }
      task.cancel
      held << 1
      assert_predicate task.join, :cancelled?
    end
    assert_equal [:connection], free
  end

  def test_the_gem_connection_pool
    require "connection_pool"
    opening, gate = false, Queue.new
    pool = ConnectionPool.new(size: 2) { opening ? gate.pop : :first }
    in_run do |scope|
      checked_out = Queue.new
      error = nil
      task = parked(scope.spawn do
        Timeout.timeout(0.02) { pool.with { checked_out.pop } && sleep }
      rescue Timeout::Error => error
        error = error.class
      end)
      opening = true
      other = parked(scope.spawn { pool.with { :other } }) # waits for the pool's lock
      checked_out << 1
      pass_until("the wait for the pool's lock") { task.waits_for.match?(/Mutex|Monitor/) }
      sleep 0.03
      gate << :second
      [task, other].each(&:join)
      assert_equal Timeout::Error, error
    end
    assert_equal 2, pool.available
  end

  # ---- several fibers ----
  def test_inside_an_enumerator
    each_kind do |log|
      values = Enumerator.new { |yielder| yielder << mask(NEVER) { sleep(0.02) && log << :masked } }
      values.next
      log << :never
    end
  end

  def test_around_an_enumerator
    each_kind do |log|
      values = Enumerator.new { |yielder| yielder << sleep(0.02) }
      mask(NEVER) { values.next && log << :masked }
      log << :never
    end
  end

  def test_an_enumerator_that_has_yielded_inside_does_not_protect_the_task
    each_kind do |log|
      values = Enumerator.new { |yielder| mask(NEVER) { (yielder << :masked) && yielder << 2 } }
      log << values.next
      sleep 5
      log << :never
    end
  end

  def test_masks_of_several_tasks_end_in_any_order
    in_run do |scope|
      gates = Array.new(3) { Queue.new }
      tasks = gates.map.with_index { |gate, i| parked(scope.spawn { mask(i.odd? ? LIFTED : NEVER) { gate.pop } && :done }) }
      tasks.each(&:cancel)
      gates.values_at(0, 2).each { |gate| gate << :value }
      assert_equal [NeverBlock::Cancelled] * 3, tasks.map { |task| raised { task.value }.class }
    end
    refute_predicate Thread, :pending_interrupt?
  end

  # Regression: its exception, sent by the helper thread, was raised in the masked task.
  def test_a_timeout_that_computes_beside_a_masked_task
    in_run do |scope|
      gate = Queue.new
      masked = parked(scope.spawn { mask(NEVER) { gate.pop } && :unharmed })
      computing = scope.spawn { Timeout.timeout(0.01) { compute(0.2) || (gate << 1) && sleep } }
      assert_kind_of Timeout::Error, raised { computing.value }
      assert_equal :unharmed, masked.value
    end
  end

  # The end of the other mask removes this one from the thread.
  def test_a_masked_task_that_computes_after_another_mask_has_ended
    log = []
    in_run do |scope|
      gate = Queue.new
      other = parked(scope.spawn { mask(KeyError => :never) { gate.pop } })
      task = scope.spawn do
        Timeout.timeout(0.01) do
          mask(NEVER) { (gate << 1) && other.join && compute(0.2) || log << :committed }
          sleep
        end
      end
      assert_kind_of Timeout::Error, raised { task.value }
    end
    assert_equal [:committed], log
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
        NB.move_on_after(0.001) do
          mask(NEVER) do
            Thread.current.raise(interrupt)
            compute(0.01)
          end
        end
        sleep
      end
    end
    thread.report_on_exception = false
    assert_raises(interrupt) { thread.join(10) }
  ensure
    thread&.kill
  end

  # Found by the fuzzer: to lift their masks, all tasks were cancelled, including a shielded one.
  def test_a_killed_loop_lets_a_shielded_operation_finish
    queue, begun, left = Array.new(3) { Queue.new }
    chosen = nil
    thread = Thread.new do
      NeverBlock.run do |scope|
        scope.spawn { NB.shield { chosen = NeverBlock.select(queue, Queue.new) } }
        NB.pass until scope.tasks.any? { |task| task.waits_for.to_s.include?("Bell") }
        begun << true
        sleep
      ensure
        left << true
      end
    end
    begun.pop(timeout: 10)
    thread.kill
    left.pop(timeout: 10)
    queue << :item
    assert thread.join(10), "the loop did not end"
    assert_equal [queue, :item], chosen
  end

  def test_a_forked_child_drops_the_masks_of_its_parents_task
    assert_equal "done\n", assert_ruby(<<~RUBY)
      require "neverblock"
      NeverBlock.run do
        Thread.handle_interrupt(Exception => :never) { Process.wait(fork { Thread.handle_interrupt(Exception => :immediate) { puts "done" } }) }
      end
    RUBY
  end

  slow "garbage collections"
  def test_under_gc_stress
    in_run do |scope|
      gate = Queue.new
      task = scope.spawn do
        GC.stress = true
        values = Enumerator.new { |yielder| yielder << mask(NEVER.dup) { mask(LIFTED.dup) { nil } || gate.pop } }
        Timeout.timeout(60) { mask(NEVER.dup) { values.next && NB::Task.current.name = "masked" } }
        sleep
      ensure
        GC.stress = false
      end
      parked(task).cancel
      gate << 1
      assert_predicate task.join, :cancelled?
      assert_equal "masked", task.name
    end
  end

  def test_enumerators_that_are_dropped_inside
    in_run do |scope|
      task = scope.spawn do
        200.times { Enumerator.new { |yielder| mask(KeyError => :never) { (yielder << 1) && yielder << 2 } }.next }
        GC.start
        sleep
      end
      parked(task).cancel
      assert_predicate task.join, :cancelled?
    end
  end
end
