# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class RunTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_returns_the_blocks_value
    assert_equal :value, in_run { :value }
    assert_nil in_run {}
  end

  def test_waits_for_spawned_tasks
    log = []
    value = in_run do |scope|
      scope.spawn { sleep 1 and log << :task }
      log << :block
      :value
    end
    assert_equal [:block, :task], log
    assert_equal :value, value
  end

  def test_waits_for_tasks_spawned_by_tasks
    depth = 0
    descend = ->(level) { level.zero? ? depth += 1 : 2.times { NB.spawn { NB.pass && nil || descend.call(level - 1) } } }
    in_run { descend.call(5) }
    assert_equal 32, depth
  end

  def test_needs_a_block
    error = assert_raises(ArgumentError) { NeverBlock.run }
    assert_match(/needs a block/, error.message)
  end

  def test_an_invalid_option_names_its_value_and_the_allowed_ones
    error = assert_raises(ArgumentError) { NeverBlock.run(exit: :now) {} }
    assert_equal "exit: :now is not one of :wait, :cancel", error.message
    error = assert_raises(ArgumentError) { NeverBlock.run(on_error: :ignore) {} }
    assert_match(/on_error: :ignore is not one of :raise, :report, or something that can be called/, error.message)
    assert_raises(ArgumentError) { NeverBlock.run(unknown: 1) {} }
    assert_nil Fiber.scheduler
  end

  def test_leaves_no_scheduler_behind
    on_thread do
      NeverBlock.run { assert_kind_of NeverBlock::Scheduler, Fiber.scheduler }
      assert_nil Fiber.scheduler
      raised { NeverBlock.run { raise "no" } }
      assert_nil Fiber.scheduler
      assert_nil NeverBlock::Task.current
      assert_empty NeverBlock.tasks
    end
  end

  def test_keeps_the_engine_from_one_run_to_the_next
    on_thread do
      first = NeverBlock.run { Fiber.scheduler }
      assert_same first, NeverBlock.run { Fiber.scheduler }
      raised { NeverBlock.run { raise "no" } }
      assert_same first, NeverBlock.run { Fiber.scheduler }
    end
  end

  def test_one_loop_per_thread
    gate = Queue.new
    threads = Array.new(3) { Thread.new { NeverBlock.run { gate.pop || Fiber.scheduler } } }
    wait_until("three loops") { gate.num_waiting == 3 }
    gate.close
    assert_equal 3, threads.map(&:value).uniq.size
  end

  def test_loops_of_several_threads_run_concurrently
    first, second = Queue.new, Queue.new
    threads = [
      Thread.new { NeverBlock.run { first << 1 and second.pop } },
      Thread.new { NeverBlock.run { second << 2 and first.pop } }
    ]
    assert_equal [2, 1], threads.map(&:value)
  end

  # ---- places of the call ----
  def test_inside_a_fiber
    value = on_thread { Fiber.new { NeverBlock.run { |scope| scope.spawn { sleep 1 and 5 }.value } }.resume }
    assert_equal 5, value
  end

  def test_inside_a_blocking_fiber
    assert_equal 5, on_thread { Fiber.new(blocking: true) { NeverBlock.run { sleep 1 and 5 } }.resume }
  end

  def test_inside_an_enumerator
    runs = lambda do
      Enumerator.new do |yielder|
        yielder << NeverBlock.run { sleep 1 and 1 }
        yielder << NeverBlock.run { sleep 1 and 2 }
      end
    end
    assert_equal [1, 2], on_thread { runs.call.then { |values| [values.next, values.next] } }
    assert_equal [1, 2], in_run { runs.call.to_a }
    assert_equal [1, 2], in_run { runs.call.then { |values| [values.next, values.next] } }
  end

  def test_inside_a_thread_of_a_task
    assert_equal 5, in_run { Thread.new { NeverBlock.run { sleep 1 and 5 } }.value }
  end

  def test_inside_a_blocking_section
    assert_equal 5, in_run { NB.neverblock(false) { NeverBlock.run { sleep 1 and 5 } } }
  end

  def test_inside_an_at_exit_handler
    assert_equal "5\n", assert_ruby('require "neverblock"; at_exit { NeverBlock.run { |scope| scope.spawn { puts 5 } } }')
  end

  # ---- nested ----
  def test_nested_is_a_scope_in_the_calling_task
    in_run do |outer|
      task = NeverBlock::Task.current
      inside = nil
      value = NeverBlock.run do |inner|
        inside = NeverBlock::Task.current
        refute_same outer, inner
        :inner
      end
      assert_same task, inside
      assert_equal :inner, value
    end
  end

  def test_nested_waits_for_its_own_tasks_only
    log, gate = [], Queue.new
    in_run do |outer|
      outer.spawn { gate.pop && log << :outer }
      NeverBlock.run { |inner| inner.spawn { sleep 1 and log << :inner } }
      log << :between
      gate << :go
    end
    assert_equal [:inner, :between, :outer], log
  end

  def test_spawn_joins_the_innermost_scope
    in_run do |outer|
      NeverBlock.run do |inner|
        assert_same inner, NB.spawn {}.scope
        assert_same outer, outer.spawn {}.scope
        NeverBlock.run { |innermost| assert_same innermost, NB.spawn {}.scope }
        assert_same inner, NB.spawn {}.scope
      end
      assert_same outer, NB.spawn {}.scope
    end
  end

  def test_a_task_spawns_into_its_own_scope
    in_run do |outer|
      NeverBlock.run do |inner|
        assert_same inner, inner.spawn { NB.spawn {}.scope }.value
        assert_same outer, outer.spawn { NB.spawn {}.scope }.value
      end
    end
  end

  def test_break_leaves_a_nested_run_and_cancels_its_tasks
    log = []
    scope = nil
    value = in_run do
      NeverBlock.run do |inner|
        scope = inner
        inner.spawn do
          sleep
        ensure
          sleep 1
          log << :ensure
        end
        NB.pass
        break :broken
      end
    end
    assert_equal :broken, value
    assert_equal [:ensure], log
    assert_predicate scope, :closed?
    assert_raises(NeverBlock::ClosedError) { scope.spawn {} }
  end

  def test_return_leaves_a_nested_run
    assert_equal :returned, in_run { returning(:returned) }
  end

  def returning(value)
    NeverBlock.run { |scope| scope.spawn { sleep } && NB.pass || (return value) }
  end

  def test_throw_leaves_nested_runs
    log = []
    value = in_run do
      catch(:done) do
        NeverBlock.run do |outer|
          outer.spawn do
            sleep
          ensure
            log << :outer
          end
          NeverBlock.run do |inner|
            inner.spawn do
              sleep
            ensure
              log << :inner
            end
            NB.pass
            throw :done, :thrown
          end
        end
      end
    end
    assert_equal :thrown, value
    assert_equal [:inner, :outer], log
  end

  def test_failures_of_tasks_during_a_throw_are_raised
    error = assert_raises(RuntimeError) do
      in_run do
        NeverBlock.run do |scope|
          scope.spawn do
            sleep
          ensure
            raise "in ensure"
          end
          NB.pass
          break
        end
      end
    end
    assert_equal "in ensure", error.message
  end

  def test_break_return_and_throw_cannot_leave_the_outermost_run
    assert_raises(LocalJumpError) { in_run { break 1 } }
    assert_raises(LocalJumpError) { on_thread { outermost_return } }
    assert_raises(UncaughtThrowError) { on_thread { catch(:x) { NeverBlock.run { throw :x } } } }
  end

  def outermost_return = NeverBlock.run { return 1 }

  def test_a_hundred_nested_runs
    nest = ->(level) { level.zero? ? sleep(1) : NeverBlock.run { nest.call(level - 1) && level } }
    assert_equal 100, in_run { nest.call(100) }
  end

  # ---- exit: :cancel ----
  def test_exit_cancel_cancels_the_remaining_tasks
    log = []
    value = in_run(exit: :cancel) do |scope|
      scope.spawn do
        sleep
      ensure
        sleep 1 # may wait
        log << :ended
      end
      NB.pass
      :value
    end
    assert_equal :value, value
    assert_equal [:ended], log
  end

  def test_exit_cancel_nested
    log, gate = [], Queue.new
    in_run do |outer|
      other = outer.spawn { gate.pop && log << :other }
      NeverBlock.run(exit: :cancel) { |scope| scope.spawn { log << :never } }
      assert_predicate other, :alive?
      gate << :go
    end
    assert_equal [:other], log
  end

  def test_exit_cancel_still_raises_failures
    assert_equal "block", raised { in_run(exit: :cancel) { raise "block" } }.message
    error = raised do
      in_run(exit: :cancel) do |scope|
        scope.spawn do
          sleep
        ensure
          raise "ensure"
        end
        NB.pass
      end
    end
    assert_equal "ensure", error.message
  end

  # ---- cancelled itself ----
  def test_a_run_whose_block_is_cancelled_raises
    assert_kind_of NeverBlock::Cancelled, raised { in_run { NeverBlock::Task.current.cancel && sleep } }
  end

  def test_the_block_is_a_task_named_main
    in_run do
      task = NeverBlock::Task.current
      assert_equal "main", task.name
      assert_equal "#{__FILE__}:#{__LINE__ - 3}", task.spawned_at
      assert_equal [task], NeverBlock.tasks
    end
  end

  # ---- many ----
  slow "ten thousand runs"
  def test_ten_thousand_runs_leave_nothing
    on_thread do
      10_000.times { |number| raise "wrong" unless NeverBlock.run { number } == number }
      assert_nothing_left NeverBlock::Scheduler.kept
    end
  end

  slow "a hundred thousand tasks"
  def test_a_burst_of_a_hundred_thousand_short_tasks
    on_thread do
      count = 0
      NeverBlock.run { |scope| 100_000.times { scope.spawn { count += 1 } } }
      assert_equal 100_000, count
      assert_nothing_left NeverBlock::Scheduler.kept
    end
  end

  def test_ten_thousand_tasks_that_wait
    on_thread do
      sum = NeverBlock.run { |scope| Array.new(10_000) { |i| scope.spawn { sleep(1) && i } }.sum(&:value) }
      assert_equal 49_995_000, sum
      assert_nothing_left NeverBlock::Scheduler.kept
    end
  end

  def test_tasks_are_collected_after_the_run
    assert_ruby(<<~RUBY)
      require "neverblock"
      def work = NeverBlock.run { |scope| 1_000.times { scope.spawn { sleep 0.001 } } }
      3.times { work }
      3.times { GC.start }
      tasks, fibers = [NeverBlock::Task, Fiber].map { |kind| ObjectSpace.each_object(kind).count }
      abort "\#{tasks} tasks, \#{fibers} fibers are left" if tasks > 100 || fibers > 100
    RUBY
  end

  # ---- Ractors ----
  # Ruby 3.3 and 3.4 crash when several Ractors make plain fibers or prepend modules at once; ours take turns.
  def test_in_several_ractors_at_once
    assert_equal "[50, 50, 50, 50]\n", assert_ruby(<<~RUBY, options: ["-W0"])
      require "neverblock"
      ractors = Array.new(4) do
        Ractor.new { NeverBlock.concurrently(1..50) { sleep 0.0001 }.size }
      end
      p ractors.map { |ractor| ractor.respond_to?(:value) ? ractor.value : ractor.take }
    RUBY
  end

  def test_inside_a_ractor
    assert_equal "[0, 1, 4]\n", assert_ruby(<<~RUBY, options: ["-W0"])
      require "neverblock"
      squares = Array.new(3) do |number|
        ractor = Ractor.new(number) do |mine|
          NeverBlock.run { |scope| scope.spawn { sleep 0.01; mine * mine }.value }
        end
        ractor.respond_to?(:value) ? ractor.value : ractor.take
      end
      p squares
    RUBY
  end

  slow "it starts Ruby"
  def test_the_functions_inside_a_ractor
    assert_equal %([[2, 4], :near, "NeverBlock::TimeoutError", 7, :pooled, 3, "RuntimeError: no"]\n), assert_ruby(<<~RUBY, options: ["-W0"])
      require "neverblock"
      ractor = Ractor.new do
        NeverBlock.run do |scope|
          timed_out = begin
            NeverBlock.timeout(0.01) { sleep }
          rescue NeverBlock::TimeoutError => error
            error.class.name
          end
          failed = begin
            NeverBlock.run { |inner| inner.spawn { raise "no" } }
          rescue => error
            "\#{error.class}: \#{error.message}"
          end
          [NeverBlock.concurrently([1, 2], limit: 1) { |x| sleep 0.001; x * 2 },
            NeverBlock.race(-> { sleep }, -> { :near }), timed_out, NeverBlock.offload { 7 },
            NB::FiberPool.new(2).spawn { :pooled }.value, NB::Semaphore.new(1).acquire { 3 }, failed]
        end
      end
      p ractor.respond_to?(:value) ? ractor.value : ractor.take
    RUBY
  end
end
