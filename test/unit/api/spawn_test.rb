# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

# NeverBlock.spawn and NeverBlock.pass; scope.spawn is in scope_test.rb.
class SpawnTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_inside_a_loop_it_starts_a_task_of_the_innermost_scope
    in_run do |scope|
      task = NeverBlock.spawn(1, 2, name: "sum") { |one, two| sleep(1) && one + two }
      assert_equal [task], scope.tasks
      assert_equal ["sum", 3], [task.name, task.value]
    end
  end

  def test_outside_a_loop_the_block_runs_at_once
    log = []
    task = NeverBlock.spawn(1, name: "now") { |number| (log << :block) && number }
    log << :after
    assert_equal %i[block after], log
    assert_equal ["now", 1, :returned, false, false], [task.name, task.value, task.state, task.alive?, task.status]
    assert_same task, task.join
    assert_same task, task.join(0)
    assert_equal false, task.cancel
    assert_nil task.waits_for
    assert_match(/\A#<NeverBlock::Task "now" returned spawned at .*spawn_test.rb:\d+>\z/, task.inspect)
    assert_nil Fiber.scheduler
  end

  def test_outside_a_loop_its_errors_are_raised_from_spawn
    assert_equal "no", raised { NeverBlock.spawn { raise "no" } }.message
    assert_equal 1, NeverBlock.spawn { break 1 }
  end

  def test_needs_a_block
    assert_match(/needs a block/, assert_raises(ArgumentError) { NeverBlock.spawn }.message)
    in_run { assert_raises(ArgumentError) { NeverBlock.spawn } }
  end

  def test_in_a_blocking_section_it_runs_at_once
    in_run do
      log = []
      NB.neverblock(false) { NeverBlock.spawn { log << :block } && log << :after }
      assert_equal %i[block after], log
    end
  end

  def test_in_a_thread_of_a_task_it_runs_at_once
    in_run { assert_equal :returned, Thread.new { NeverBlock.spawn {}.state }.value }
  end

  def test_inside_an_enumerator_it_starts_a_task
    in_run do
      values = Enumerator.new { |yielder| yielder << NeverBlock.spawn { sleep 1 and 1 } }
      task = values.next
      assert_equal [:new, 1], [task.state, task.value]
    end
  end

  # ---- pass ----
  def test_pass_lets_the_other_tasks_run_first
    in_run do
      log = []
      3.times { |n| NB.spawn { (log << n) && NB.pass && nil || log << n + 10 } }
      assert_nil NB.pass
      assert_equal [0, 1, 2], log
      NB.pass
      assert_equal [0, 1, 2, 10, 11, 12], log
    end
  end

  def test_pass_lets_timers_and_descriptors_through
    in_run do |scope|
      reader, writer = IO.pipe
      seen = []
      parked(scope.spawn { sleep(1) && seen << :timer })
      scope.spawn { reader.read(1) && seen << :pipe }
      writer.write("x")
      NB.neverblock(false) { Thread.new { clock.advance(1) }.join } # only the time changes
      1_000.times { NB.pass }
      assert_equal %i[pipe timer], seen.sort
    ensure
      reader.close
      writer.close
    end
  end

  def test_pass_outside_a_loop_and_in_a_blocking_section
    assert_nil NB.pass
    in_run do |scope|
      ran = false
      scope.spawn { ran = true }
      NB.neverblock(false) { assert_nil NB.pass }
      refute ran
    end
  end

  # ---- neverblock(false) ----
  def test_a_blocking_section_stops_the_loop
    in_run do |scope|
      ran = false
      scope.spawn { ran = true }
      value = NB.neverblock(false) do
        assert_predicate Fiber.current, :blocking?
        sleep 0 # lets other tasks run outside of such a section
        :value
      end
      assert_equal [:value, false], [value, ran]
      NB.pass
      assert ran
    end
  end

  def test_a_blocking_section_inside_another_and_outside_a_loop
    assert_equal 1, NB.neverblock(false) { NB.neverblock(false) { NB.neverblock(true) { NB.neverblock { 1 } } } }
    in_run { assert_equal 1, NB.neverblock(false) { NB.neverblock(false) { sleep(0) && 1 } } }
    assert_raises(ArgumentError) { NB.neverblock(false) }
  end

  def test_an_error_leaves_a_blocking_section
    in_run do
      assert_equal "no", raised { NB.neverblock(false) { raise "no" } }.message
      refute_predicate Fiber.current, :blocking?
      sleep 1
      assert_in_delta 1, clock.elapsed
    end
  end
end
