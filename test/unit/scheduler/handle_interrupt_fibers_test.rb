# frozen_string_literal: true

require "test_helper"
require "support/masks"

# Masks of Thread.handle_interrupt where several fibers have a part: pools and their locks, Enumerators, tasks beside
# the masked one, the end of the loop.
class HandleInterruptFibersTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Masks

  # ---- pools and locks ----
  def test_a_resource_is_returned_while_its_lock_is_taken
    free, lock = [:connection], Mutex.new
    in_run do |scope|
      held = Queue.new
      scope.spawn { lock.synchronize { held.pop } }
      task = parked(scope.spawn do
        mask(NEVER) do
          connection = free.pop
          begin
            mask(LIFTED) { sleep 0.1 }
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
        Timeout.timeout(15) { pool.with { checked_out.pop } && sleep }
      rescue Timeout::Error => error
        error = error.class
      end)
      opening = true
      other = parked(scope.spawn { pool.with { :other } }) # waits for the pool's lock
      checked_out << 1
      pass_until("the wait for the pool's lock") { task.waits_for.match?(/Mutex|Monitor/) }
      sleep 20
      gate << :second
      [task, other].each(&:join)
      assert_equal Timeout::Error, error
    end
    assert_equal 2, pool.available
  end

  # ---- several fibers ----
  def test_inside_an_enumerator
    each_kind do |log|
      values = Enumerator.new { |yielder| yielder << mask(NEVER) { sleep(10) && log << :masked } }
      values.next
      log << :never
    end
  end

  def test_around_an_enumerator
    each_kind do |log|
      values = Enumerator.new { |yielder| yielder << sleep(10) }
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

  # ---- the loop's end, and forks ----

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
    begun.pop(timeout: NeverBlockTest::LIMIT)
    thread.kill
    left.pop(timeout: NeverBlockTest::LIMIT)
    queue << :item
    assert thread.join(NeverBlockTest::LIMIT), "the loop did not end"
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

  # ---- garbage collections ----
  slow "garbage collections"
  def test_under_gc_stress
    in_run do |scope|
      gate = Queue.new
      task = scope.spawn do
        GC.stress = 1 # without full collections, which take as long as all that other tests have left is large
        values = Enumerator.new { |yielder| yielder << mask(NEVER.dup) { mask(LIFTED.dup) { GC.start } || gate.pop } }
        Timeout.timeout(60) { mask(NEVER.dup) { values.next && NB::Task.current.name = "masked" } }
        sleep
      ensure
        GC.stress = false
      end
      parked(task)
      GC.start
      task.cancel
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
