# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

# Enumerators and other fibers inside tasks: they wait, and they belong to their task.
class EnumeratorTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_waits_inside_an_enumerator_park_the_task
    in_run do |scope|
      log, gate = [], Thread::Queue.new
      scope.spawn do
        3.times do |n|
          sleep 0.1
          log << :other
          gate << n
        end
      end
      values = Enumerator.new { |yielder| 3.times { yielder << gate.pop } }
      assert_equal [0, 1, 2], [values.next, values.next, values.next]
      assert_equal [:other] * 3, log
      assert_raises(StopIteration) { values.next }
    end
  end

  def test_many_at_once
    in_run do
      sums = NeverBlock.concurrently(1..200, limit: 200) do |n|
        values = Enumerator.new { |yielder| 5.times { |i| sleep(0.01 * (i % 3)) && yielder << n + i } }
        5.times.sum { values.next }
      end
      assert_equal (1..200).map { |n| n * 5 + 10 }, sums
    end
  end

  def test_one_enumerator_inside_another
    in_run do
      inner = Enumerator.new { |yielder| 3.times { |n| sleep(0.05) && yielder << n } }
      outer = Enumerator.new { |yielder| loop { yielder << inner.next * 10 } }
      assert_equal [0, 10, 20], outer.take(3)
      inner.rewind
      assert_equal [0, 10, 20], Array.new(3) { outer.next }
    end
  end

  # A single task that passes goes on without a switch, except for every 64th time.
  def test_passing_in_turn_with_an_enumerator
    in_run do
      values = Enumerator.new { |yielder| 200.times { |n| NB.pass && nil || yielder << n } }
      assert_equal (0...200).to_a, Array.new(200) { NB.pass && nil || values.next }
    end
  end

  def test_lazy_and_zip
    in_run do
      slow = Enumerator.new { |yielder| (1..).each { |n| sleep(0.02) && yielder << n } }
      assert_equal [4, 8], slow.lazy.select(&:even?).map { |n| n * 2 }.first(2)
      assert_equal [[1, :a], [2, :b]], slow.lazy.zip(%i[a b].each).first(2)
    end
  end

  def test_fibers_resumed_by_hand
    in_run do
      fiber = Fiber.new do |first|
        sleep 0.1
        second = Fiber.yield(first + 1)
        sleep 0.1
        second + 1
      end
      assert_equal [2, 11, false], [fiber.resume(1), fiber.resume(10), fiber.alive?]
    end
  end

  def test_the_functions_inside_an_enumerator
    in_run do |outer|
      values = Enumerator.new do |yielder|
        yielder << NeverBlock.run { |scope| scope.spawn { sleep(0.1) && 1 }.value }
        yielder << NeverBlock.concurrently([1, 2]) { |n| n }.sum
        yielder << NeverBlock.race(-> { sleep }, -> { 4 })
        yielder << NB.offload { 5 }
        yielder << NB.spawn { 6 }.value
        yielder << raised { NeverBlock.timeout(0.2) { sleep } }.class
      end
      assert_equal [1, 3, 4, 5, 6, NeverBlock::TimeoutError], Array.new(6) { values.next }
    end
  end

  def test_an_error_in_a_nested_run_inside_an_enumerator
    in_run do
      values = Enumerator.new { |yielder| yielder << NeverBlock.run { |scope| scope.spawn { sleep(0.1) && raise("no") } && sleep } }
      assert_equal "no", raised { values.next }&.message
      sleep 0.1
    end
  end

  def test_an_outer_scope_that_fails_while_an_enumerator_waits
    log = []
    error = raised do
      in_run do |scope|
        scope.spawn { sleep(0.2) && raise("no") }
        Enumerator.new do
          sleep
        ensure
          log << :ensure
        end.next
      end
    end
    assert_equal ["no", [:ensure]], [error&.message, log]
  end

  def test_a_cancelled_task_unwinds_the_enumerator_that_waits
    log = []
    in_run do |scope|
      task = parked(scope.spawn do
        Enumerator.new do
          sleep
        ensure
          sleep 0.1
          log << :ensure
        end.next
      end)
      task.cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
    end
    assert_equal [:ensure], log
  end

  def test_suspended_enumerators_do_not_delay_the_run
    on_thread do
      NeverBlock.run do
        100.times { Enumerator.new { |yielder| sleep(0) && (yielder << 1) && sleep }.next }
        sleep 0.1
      end
      assert_nothing_left NeverBlock::Scheduler.kept
    end
  end

  # ---- timeouts that begin and end in different fibers ----
  def test_a_timeout_inside_an_enumerator_does_not_end_an_outer_one
    in_run do
      values = Enumerator.new { |yielder| Timeout.timeout(60) { yielder << 1 } && yielder << 2 }
      values.next
      error = raised { NeverBlock.timeout(1) { values.next && sleep } }
      assert_kind_of NeverBlock::TimeoutError, error
      sleep 0.1
    end
  end

  def test_an_outer_timeout_ends_before_one_inside_an_enumerator
    in_run do
      values = Enumerator.new do |yielder|
        Timeout.timeout(2) { (yielder << 1) && sleep }
      rescue Timeout::Error
        yielder << :expired
      end
      Timeout.timeout(60) { values.next }
      assert_equal :expired, values.next
    end
  end

  def test_a_suspended_enumerators_timeout_is_raised_when_it_continues
    in_run do
      values = Enumerator.new do |yielder|
        Timeout.timeout(0.5) { (yielder << 1) && sleep }
      rescue Timeout::Error
        yielder << :expired
      end
      values.next
      sleep 2 # not ours to end
      assert_equal :expired, values.next
    end
  end

  def test_an_enumerator_that_is_dropped_inside_its_timeout
    on_thread do
      NeverBlock.run do
        200.times { Enumerator.new { |yielder| Timeout.timeout(2) { yielder << 1 } }.next }
        3.times { GC.start && sleep(1.5) }
      end
      NeverBlock.run { sleep 0.1 }
    end
  end

  # R8 of the runtime's review: each timeout held its fiber until the end of the task.
  slow "it collects garbage"
  def test_enumerators_that_are_dropped_inside_their_timeouts_are_collected
    in_run do
      count = -> { GC.start.then { ObjectSpace.each_object(Fiber).count(&:alive?) } }
      before = count.call
      10.times do
        100.times { Enumerator.new { |yielder| Timeout.timeout(0.1) { (yielder << 1) && yielder << 2 } }.next }
        100.times { Enumerator.new { |yielder| Timeout.timeout(60) { (yielder << 1) && yielder << 2 } }.next }
        sleep 0.2
        GC.start
      end
      assert_operator count.call - before, :<, 1000 # of 2,000; a slow machine's stacks show more of them to the collector
      assert_operator Fiber.scheduler.statistics[:timers], :<, 600
    end
  end

  def test_a_timeout_reaches_a_wait_two_enumerators_deep
    in_run do
      deep = Enumerator.new { sleep }
      values = Enumerator.new { |yielder| yielder << raised { NeverBlock.timeout(0.5) { deep.next } }.class }
      assert_equal NeverBlock::TimeoutError, values.next
    end
  end

  # ---- scopes that begin and end in different fibers ----
  def test_scopes_of_two_enumerators_that_are_read_in_turn
    in_run do |scope|
      one, two = Array.new(2) { |place| Enumerator.new { |yielder| NeverBlock.as_completed([-> { place }, -> { place }]) { |value| yielder << value } } }
      assert_equal [[0, 1]] * 2, Array.new(2) { [one.next, two.next] }
      [one, two].each { |values| assert_raises(StopIteration) { values.next } }
      assert_same scope, NeverBlock.spawn { nil }.tap(&:join).scope
    end
  end

  def test_tasks_spawned_beside_a_suspended_enumerator_belong_to_its_caller
    error = raised do
      NeverBlock.run do |scope|
        values = Enumerator.new { |yielder| NeverBlock.run { yielder << NeverBlock.spawn { nil }.scope } }
        refute_same scope, values.next
        assert_same scope, NeverBlock.spawn { raise "mine" }.scope
        sleep
      end
    end
    assert_equal "mine", error.message
  end

  def test_tasks_of_an_enumerator_belong_to_the_scope_around_it
    in_run do |outer|
      NeverBlock.run do |scope|
        values = Enumerator.new { |yielder| yielder << NeverBlock.spawn { nil }.scope }
        assert_same scope, values.next
      end
      assert_same outer, NeverBlock.spawn { nil }.scope
    end
  end

  def test_tasks_of_a_suspended_enumerator_end_with_the_task_that_began_it
    log = []
    on_thread do
      NeverBlock.run do |scope|
        started = Thread::Queue.new
        child = proc do
          (started << true) && sleep
        ensure
          log << :ended
        end
        scope.spawn { Enumerator.new { |yielder| NeverBlock.run { |inner| inner.spawn(&child) && started.pop && yielder << 1 } }.next }
      end
      assert_nothing_left NeverBlock::Scheduler.kept
    end
    assert_equal [:ended], log
  end

  def test_a_failure_in_the_scope_of_a_suspended_enumerator_is_raised_at_the_end
    error = raised do
      NeverBlock.run do |scope|
        scope.spawn do
          child = Enumerator.new { |yielder| NeverBlock.run { |inner| yielder << inner.spawn { raise "lost" } } }.next
          NeverBlock.pass while child.alive?
        end
      end
    end
    assert_equal "lost", error.message
  end

  def test_an_enumerator_that_outlives_the_task_of_its_scope_raises
    in_run do |scope|
      values = Enumerator.new { |yielder| NeverBlock.run { (yielder << 1) && yielder << 2 } }
      scope.spawn { values.next }.join
      assert_equal 2, values.next
      assert_raises(NeverBlock::ClosedError) { values.next }
    end
  end

  def test_an_enumerator_that_waits_in_another_task_when_that_of_its_scope_ends
    in_run do |scope|
      values = Enumerator.new { |yielder| NeverBlock.run { |inner| (yielder << 1) && inner.spawn { sleep } } }
      gate = Thread::Queue.new
      scope.spawn { values.next && gate.pop }
      NeverBlock.pass
      reader = scope.spawn { raised { values.next } }
      3.times { NeverBlock.pass }
      gate << true
      assert_kind_of NeverBlock::ClosedError, reader.value
    end
  end

  slow "it collects garbage"
  def test_enumerators_that_are_dropped_inside_their_scopes_are_collected
    in_run do
      count = -> { GC.start.then { ObjectSpace.each_object(NeverBlock::Scope).count } }
      before = count.call
      counts = Array.new(20) { 100.times { Enumerator.new { |yielder| NeverBlock.run { yielder << 1 } }.next }.then { count.call - before } }
      assert_operator counts.drop(10).min, :<, 1_000, counts.inspect # not 1,100 or more: a collection scans stacks, and may keep some
    end
  end

  # Each Enumerator got the stack of the task before it, with the end of which the stack still had a word of the task. Its
  # block refers to the Enumerator before. So none was collected while the newest lived.
  slow "it collects garbage"
  def test_dropped_enumerators_are_collected_when_their_tasks_have_ended
    in_run do
      count = -> { GC.start.then { ObjectSpace.each_object(Fiber).count(&:alive?) } }
      before = count.call
      200.times do
        enumerator = Enumerator.new { |yielder| NeverBlock.run { |scope| scope.spawn { enumerator } && (yielder << 1) && yielder << 2 } }
        enumerator.next
        sleep 0
      end
      assert_operator count.call - before, :<, 150 # not 200: a collection scans stacks, and may keep some
    end
  end
end
