# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/other_scheduler"
require "support/virtual_time"

# NeverBlock.select. Losses of items are tested in select_lossless_test.rb, IO.select in scheduler/io_select_test.rb.
class SelectWordTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  # ---- which source wins ----
  def test_an_item_in_the_queue
    in_run do
      queue = queue_of(1, 2)
      assert_equal [queue, 1], NeverBlock.select(Thread::Queue.new, queue)
      assert_equal 1, queue.size
    end
  end

  def test_an_item_that_is_pushed_later
    in_run do |scope|
      one, other = Thread::Queue.new, Thread::Queue.new
      scope.spawn { sleep(1) && other << :item }
      assert_equal [other, :item], NeverBlock.select(one, other)
      assert_quiet one, other
    end
  end

  def test_nil_and_false_and_arrays_are_items
    in_run do |scope|
      queue = Thread::Queue.new
      [nil, false, [1, 2]].each do |item|
        scope.spawn { queue << item }
        assert_equal [queue, item], NeverBlock.select(queue)
      end
    end
  end

  def test_a_pop_from_a_sized_queue_wakes_its_pushers
    in_run do |scope|
      queue = Thread::SizedQueue.new(1)
      pushers = Array.new(3) { |number| parked_or_ended(scope.spawn { queue << number }) }
      assert_equal [0, 1, 2], Array.new(3) { NeverBlock.select(queue, Thread::Queue.new).last }
      pushers.each(&:join)
    end
  end

  def test_a_closed_queue_yields_its_items_and_then_nil
    in_run do |scope|
      queue = queue_of(1).close
      assert_equal [[queue, 1], [queue, nil]], Array.new(2) { NeverBlock.select(queue) }
      later = Thread::Queue.new
      scope.spawn { later.close }
      assert_equal [later, nil], NeverBlock.select(later)
    end
  end

  def test_tasks
    in_run do |scope|
      queue = Thread::Queue.new
      task = scope.spawn { sleep(1) && :value }
      2.times { assert_equal [task, :value], NeverBlock.select(queue, task) }
      assert_quiet queue
    end
  end

  def test_a_failed_tasks_error_is_raised_and_its_scope_continues
    in_run do |scope|
      task = scope.spawn { sleep(1) && raise(IOError, "no") }
      2.times { assert_equal "no", raised { NeverBlock.select(Thread::Queue.new, task) }.message }
      cancelled = scope.spawn { sleep }
      scope.spawn { cancelled.cancel(:why) }
      assert_equal :why, raised { NeverBlock.select(cancelled) }.reason
    end
  end

  def test_a_failing_task_that_did_not_win_counts_in_its_scope
    error = raised do
      in_run do |scope|
        queue = Thread::Queue.new
        task = scope.spawn { sleep(1) && raise("no waiter") }
        scope.spawn { queue << 1 }
        NeverBlock.select(queue, task)
        sleep
      end
    end
    assert_equal "no waiter", error.message
  end

  def test_tasks_of_another_loop_and_threads
    gate = Thread::Queue.new
    far = nil
    thread = Thread.new { NeverBlock.run { |scope| (far = scope.spawn { gate.pop }).join } }
    wait_until("the far task") { far&.waits_for }
    in_run do |scope|
      scope.spawn { gate << :far }
      assert_equal [far, :far], NeverBlock.select(Thread::Queue.new, far)
      opened = Thread::Queue.new
      near = Thread.new { opened.pop && :thread }
      scope.spawn { sleep(1) && opened << true }
      assert_equal [near, :thread], NeverBlock.select(Thread::Queue.new, near)
      failing = Thread.new { opened.pop && raise("thread") }
      scope.spawn { sleep(1) && opened << true }
      failing.report_on_exception = false
      assert_equal "thread", raised { NeverBlock.select(failing) }.message
    end
    thread.join
  end

  def test_promises
    in_run do |scope|
      promise = NeverBlock::Promise.new
      scope.spawn { promise.fulfill(:done) }
      2.times { assert_equal [promise, :done], NeverBlock.select(promise, Thread::Queue.new) }
      broken = NeverBlock::Promise.new
      scope.spawn { broken.reject("no") }
      assert_equal "no", raised { NeverBlock.select(broken) }.message
    end
  end

  def test_descriptors
    in_run do |scope|
      IO.pipe do |reader, writer|
        scope.spawn { sleep(1) && writer.write("x") }
        assert_equal [reader, reader], NeverBlock.select(Thread::Queue.new, reader)
        assert_equal "x", reader.read_nonblock(10)
        scope.spawn { writer.close }
        assert_equal [reader, reader], NeverBlock.select(reader), "its end is readable"
      end
    end
  end

  def test_a_descriptor_that_is_closed
    in_run do |scope|
      reader, writer = IO.pipe
      scope.spawn { sleep(1) && reader.close }
      2.times { assert_kind_of IOError, raised { NeverBlock.select(reader, Thread::Queue.new) } }
      writer.close
    end
  end

  def test_data_decrypted_by_tls_is_readable
    IO.pipe do |reader, _writer|
      secured = Struct.new(:to_io, :pending).new(reader, 5)
      assert_equal [secured, secured], NeverBlock.select(secured, timeout: 0)
      secured.pending = 0
      assert_nil NeverBlock.select(secured, timeout: 0)
    end
  end

  # ---- time ----
  def test_the_timeout
    in_run do
      queue = Thread::Queue.new
      assert_nil NeverBlock.select(queue, timeout: 5)
      assert_in_delta 5, clock.elapsed
      assert_quiet queue
      assert_nil NeverBlock.select(timeout: 1)
      assert_in_delta 6, clock.elapsed
    end
  end

  def test_a_timeout_of_zero_does_not_wait
    queue = queue_of(1)
    assert_equal [queue, 1], NeverBlock.select(queue, timeout: 0)
    assert_nil NeverBlock.select(queue, timeout: 0)
    assert_nil Fiber.scheduler
    in_run { |scope| scope.spawn { flunk "it let others run" }.then { |task| NeverBlock.select(queue, timeout: 0) || task.cancel } }
  end

  # ---- the block form ----
  def test_the_winners_block_is_called
    in_run do |scope|
      queue = Thread::Queue.new
      scope.spawn { queue << [1, 2] }
      value = NeverBlock.select do |on|
        on.pop(queue) { |one, two| one + two }
        on.after(10) { flunk "too early" }
      end
      assert_equal 3, value
      assert_equal(5, NeverBlock.select { |on| on.pop(queue_of(5)) })
      assert_nil(NeverBlock.select(timeout: 0) { |on| on.pop(queue) { flunk "there is none" } })
    end
  end

  def test_timers
    in_run do
      seen = NeverBlock.select do |on|
        on.after(60) { :later }
        on.after(5) { :sooner }
        on.pop(Thread::Queue.new) { :item }
      end
      assert_equal [:sooner, 5.0], [seen, clock.elapsed]
      assert_equal(:at_once, NeverBlock.select { |on| on.after(0) { :at_once } })
    end
  end

  def test_pushing_waits_for_room
    in_run do |scope|
      full = Thread::SizedQueue.new(1)
      full << :first
      scope.spawn { sleep(1) && full.pop }
      sent = NeverBlock.select do |on|
        on.push(full, :second) { |item| [:sent, item] }
        on.pop(Thread::Queue.new) { flunk "there is none" }
      end
      assert_equal [[:sent, :second], 1, :second], [sent, full.size, full.pop]
      assert_quiet full
    end
  end

  def test_an_item_of_a_losing_case_is_not_pushed
    in_run do |scope|
      full = Thread::SizedQueue.new(1)
      full << :first
      inbox = Thread::Queue.new
      scope.spawn { (inbox << 1) && full.pop }
      won = NeverBlock.select do |on|
        on.push(full, :second) { :sent }
        on.pop(inbox) { :received }
      end
      expected = (won == :sent) ? [1, 1] : [0, 0]
      assert_equal expected, [full.size, inbox.size]
      assert_quiet full, inbox
    end
  end

  def test_pushing_to_a_closed_queue
    in_run do |scope|
      full = Thread::SizedQueue.new(1)
      full << 1
      scope.spawn { full.close }
      2.times { assert_kind_of ClosedQueueError, raised { NeverBlock.select { |on| on.push(full, 2) } } }
    end
  end

  def test_pushing_to_a_queue_without_bounds
    queue = Thread::Queue.new
    assert_equal(1, NeverBlock.select { |on| on.push(queue, 1) })
    assert_equal 1, queue.size
  end

  def test_writable_descriptors
    in_run do |scope|
      IO.pipe do |reader, writer|
        nil while writer.write_nonblock("x" * 65_536, exception: false).is_a?(Integer)
        scope.spawn { reader.readpartial(1_000_000) }
        seen = NeverBlock.select do |on|
          on.writable(writer) { :writable }
          on.pop(Thread::Queue.new)
        end
        assert_equal :writable, seen
      end
    end
  end

  # ---- places of the call ----
  def test_outside_a_loop
    on_thread do
      queue = Thread::Queue.new
      thread = push_to_waiter(queue, :item)
      assert_equal [queue, :item], NeverBlock.select(queue, Thread::Queue.new, timeout: 10)
      assert_nil NeverBlock.select(queue, timeout: 1)
      assert_nil Fiber.scheduler
      assert_quiet queue
      thread.join
    end
  end

  def test_no_source_that_could_win_is_a_deadlock
    outcome = run_ruby("require 'neverblock'\nNeverBlock.select(Queue.new)")
    assert_match(/DeadlockError/, outcome.stderr)
  end

  def test_inside_another_scheduler
    on_thread do
      queue = Thread::Queue.new
      seen = nil
      Fiber.set_scheduler(NeverBlockTest::OtherScheduler.new)
      Fiber.schedule { seen = NeverBlock.select(queue, Thread::Queue.new) }
      Fiber.schedule do
        sleep 0 until queue.num_waiting == 1
        queue << :item
      end
      Fiber.set_scheduler(nil)
      assert_equal [queue, :item], seen
    end
  end

  def test_in_a_standalone_scheduler_and_in_an_enumerator
    queue = Thread::Queue.new
    seen = standalone do
      Fiber.schedule { sleep(1) && queue << :item }
      Enumerator.new { |yielder| yielder << NeverBlock.select(queue, Thread::Queue.new).last }.next
    end
    assert_equal :item, seen
  end

  def test_in_a_blocking_section
    in_run do |scope|
      task = scope.spawn { sleep(1) && 1 }
      NB.neverblock(false) do
        assert_equal :item, NeverBlock.select(queue_of(:item), task).last
        queue = Thread::Queue.new
        push_to_waiter(queue, 2)
        assert_equal 2, NeverBlock.select(queue).last
        assert_match(/Call select outside/, assert_raises(ThreadError) { NeverBlock.select(task) }.message)
      end
      assert_equal 1, NeverBlock.select(task).last
    end
  end

  def test_nested_and_in_a_timeout
    in_run do |scope|
      task = scope.spawn { NeverBlock.select(Thread::Queue.new, timeout: 1) || :inner }
      assert_equal :inner, NeverBlock.select(task, Thread::Queue.new).last
      assert_kind_of NeverBlock::TimeoutError, raised { NeverBlock.timeout(5) { NeverBlock.select(Thread::Queue.new) } }
      assert_equal [NeverBlock::Task.current], NeverBlock.tasks
    end
  end

  def test_a_cancelled_helper_is_replaced
    in_run do |scope|
      one, other = Thread::Queue.new, Thread::Queue.new
      selecting = parked(scope.spawn { NeverBlock.select(one, other) })
      helpers = NeverBlock.tasks.select { |task| task.name == "select" }
      assert_equal 2, helpers.size
      helpers.each(&:cancel).each(&:join)
      other << :item
      assert_equal [other, :item], selecting.value
    end
  end

  def test_nothing_is_left
    on_thread do
      queue = Thread::Queue.new
      NeverBlock.run do |scope|
        5.times { NeverBlock.select(queue, scope.spawn { sleep 1 }, timeout: 2) }
        NeverBlock.select(queue, timeout: 1)
      end
      assert_nothing_left NeverBlock::Scheduler.kept
      assert_quiet queue
    end
  end

  def test_bad_input
    assert_match(/at least one source/, assert_raises(ArgumentError) { NeverBlock.select }.message)
    assert_match(/a source must be a queue, .* got :x/, assert_raises(ArgumentError) { NeverBlock.select(:x) }.message)
    assert_match(/not both/, assert_raises(ArgumentError) { NeverBlock.select(Thread::Queue.new) {} }.message)
    assert_match(/timeout: -1 is not a number of seconds/, assert_raises(ArgumentError) { NeverBlock.select(Thread::Queue.new, timeout: -1) }.message)
    assert_match(/pop: must be a Thread::Queue or Thread::SizedQueue, got 1/, assert_raises(ArgumentError) { NeverBlock.select { |on| on.pop(1) } }.message)
    assert_match(/readable: must be an IO or respond to to_io, got 1/, assert_raises(ArgumentError) { NeverBlock.select { |on| on.readable(1) } }.message)
    assert_match(/after: .*got nil/, assert_raises(ArgumentError) { NeverBlock.select { |on| on.after(nil) } }.message)
  end

  private

  def queue_of(*items) = Thread::Queue.new(items)

  # @return [Thread] pushes the item as soon as the queue has a waiter
  def push_to_waiter(queue, item)
    Thread.new do
      Thread.pass until queue.num_waiting == 1
      queue << item
    end
  end

  def parked_or_ended(task)
    pass_until(task.inspect) { !task.alive? || task.waits_for }
    task
  end

  # No fiber or thread waits in them.
  def assert_quiet(*queues)
    assert_equal [0] * queues.size, queues.map(&:num_waiting)
  end
end
