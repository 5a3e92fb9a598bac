# frozen_string_literal: true

# engines: every - each loop has a back end of its own

require "test_helper"
require "support/runs"

# State that one task sets is never seen by another.
class IsolationTest < Minitest::Test
  include NeverBlockTest::Runs

  # Many tasks, one after another and concurrent; each looks for state that the others left.
  def assert_isolated(look, set)
    found = in_run do
      NeverBlock.concurrently(1..300, limit: 7) do |n|
        before = look.call
        set.call(n)
        sleep 0 if n.even?
        [before, look.call == n]
      end
    end
    assert_equal [[nil, true]], found.uniq
  end

  def test_fiber_locals
    assert_isolated(-> { Thread.current[:neverblock_test] }, ->(n) { Thread.current[:neverblock_test] = n })
  end

  def test_fiber_storage
    assert_isolated(-> { Fiber[:neverblock_test] }, ->(n) { Fiber[:neverblock_test] = n })
  end

  def test_instance_variables_of_the_fiber
    assert_isolated(-> { Fiber.current.instance_variable_get(:@neverblock_test) },
      ->(n) { Fiber.current.instance_variable_set(:@neverblock_test, n) })
  end

  def test_state_kept_by_fiber
    state = ObjectSpace::WeakMap.new
    assert_isolated(-> { state[Fiber.current] }, ->(n) { state[Fiber.current] = n })
  end

  def test_instance_variables_of_the_task
    assert_isolated(-> { NeverBlock::Task.current.instance_variable_get(:@neverblock_test) },
      ->(n) { NeverBlock::Task.current.instance_variable_set(:@neverblock_test, n) })
  end

  def test_every_task_has_its_own_fiber
    in_run do |scope|
      fibers = Array.new(100) { scope.spawn { Fiber.current } }.map(&:value)
      assert_equal 100, fibers.uniq(&:object_id).size
      assert_equal 100, Array.new(100) { Fiber.schedule {} }.uniq(&:object_id).size
    end
  end

  # ---- the thread's ----
  # Ruby keeps $? per thread; docs/isolation.md says so.
  def test_the_last_status_is_that_of_the_last_child_of_any_task
    in_run do |scope|
      gate = Queue.new
      first = scope.spawn do
        `exit 3`
        kept = $?.exitstatus
        gate.pop
        [kept, $?.exitstatus]
      end
      pass_until("the first child") { gate.num_waiting == 1 }
      assert_equal 4, Process.wait2(spawn("exit 4")).last.exitstatus
      gate << :go
      assert_equal [3, 4], first.value
    end
  end

  # ---- storage ----
  def test_storage_is_copied_at_spawn
    in_run do |scope|
      Fiber[:user] = "a"
      task = scope.spawn do
        before = Fiber[:user]
        Fiber[:user] = "task"
        Fiber[:new] = 1
        before
      end
      Fiber[:user] = "b"
      assert_equal "a", task.value
      assert_equal ["b", nil], [Fiber[:user], Fiber[:new]]
    end
  end

  def test_storage_of_the_callers_reaches_run_and_stays_the_callers
    on_thread do
      Fiber[:user] = "caller"
      inside = NeverBlock.run do
        Fiber[:user].tap { Fiber[:user] = "inside" }
      end
      assert_equal %w[caller caller], [inside, Fiber[:user]]
    end
  end

  def test_a_nested_run_is_the_same_task_and_so_its_storage
    in_run do
      Fiber[:user] = "outer"
      NeverBlock.run do
        assert_equal "outer", Fiber[:user]
        Fiber[:user] = "inner"
      end
      assert_equal "inner", Fiber[:user]
    end
  end

  def test_storage_in_a_pool_is_the_spawners
    in_run do |scope|
      pool = NB::FiberPool.new(1)
      seen = Array.new(5) do |n|
        scope.spawn { (Fiber[:user] = n) && pool.spawn { [Fiber[:user], Thread.current[:x].tap { Thread.current[:x] = 1 }] }.value }
      end
      assert_equal Array.new(5) { |n| [n, nil] }, seen.map(&:value)
    end
  end

  def test_storage_crosses_threads_with_scope_spawn
    in_run do |scope|
      Fiber[:user] = "loop"
      thread = Thread.new { (Fiber[:user] = "thread") && scope.spawn { Fiber[:user] } }
      assert_equal "thread", thread.value.value
    end
  end

  def test_locals_are_not_inherited_and_thread_variables_are_shared
    in_run do |scope|
      Thread.current[:local] = 1
      Thread.current.thread_variable_set(:neverblock_test, 2)
      assert_equal [nil, 2], scope.spawn { [Thread.current[:local], Thread.current.thread_variable_get(:neverblock_test)] }.value
      assert_equal 1, Thread.current[:local]
    end
  end

  def test_locals_of_the_caller_are_not_seen_in_run
    on_thread do
      Thread.current[:local] = 1
      assert_nil NeverBlock.run { Thread.current[:local].tap { Thread.current[:local] = 2 } }
      assert_equal 1, Thread.current[:local]
      assert_nil NeverBlock.run { Thread.current[:local] }
    end
  end

  # State per fiber as CurrentAttributes and similar libraries keep it, found through the current fiber's storage.
  def test_current_attributes
    current = Class.new do
      def self.instance = (Fiber[:current_instance] ||= {}.compare_by_identity)[Fiber.current] ||= new
      attr_accessor :user
    end
    in_run do
      seen = NeverBlock.concurrently(1..100, limit: 10) do |n|
        current.instance.user.tap { (current.instance.user = n) && sleep(0) }
      end
      assert_equal [nil], seen.uniq
    end
  end

  def test_the_current_exception_is_the_tasks_own
    in_run do |scope|
      raise "mine"
    rescue
      assert_nil scope.spawn { $! }.value
      scope.spawn { raised { raise "other" } }.join
      assert_equal "mine", $!.message
    end
  end

  # $? belongs to the thread in Ruby; it is set when no other task can run in between.
  slow "hundreds of processes"
  def test_the_status_of_the_last_process
    statuses = in_run { NeverBlock.concurrently(1..20, limit: 10) { |n| system("exit #{n}") || $?.exitstatus } }
    assert_equal (1..20).to_a, statuses
    statuses = in_run { NeverBlock.concurrently(1..20, limit: 10) { |n| [`echo #{n}; exit #{n}`.to_i, $?.exitstatus] } }
    assert_equal (1..20).map { |n| [n, n] }, statuses
  end

  def test_interrupt_masks_end_with_their_block
    in_run do |scope|
      scope.spawn { Thread.handle_interrupt(RuntimeError => :never) { NB.pass } }.join
      refute_predicate Thread, :pending_interrupt?
    end
  end
end
