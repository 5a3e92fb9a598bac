# frozen_string_literal: true

# engines: every - each thread has a back end of its own

require "test_helper"
require "support/runs"

# Methods that work from any thread: value, join, cancel, scope.spawn.
class ThreadsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  def test_value_and_join
    in_run do |scope|
      gate = Thread::Queue.new
      task = scope.spawn { gate.pop && :value }
      threads = [Thread.new { task.value }, Thread.new { task.join }, Thread.new { task.join(10) }]
      pass_until("the threads to wait") { threads.all? { |thread| thread.status == "sleep" } }
      gate << 1
      assert_equal [:value, task, task], threads.map(&:value)
      assert_equal [:value, task], [Thread.new { task.value }, Thread.new { task.join(0) }].map(&:value)
    end
  end

  def test_join_with_a_limit
    in_run do |scope|
      task = scope.spawn { sleep }
      assert_nil Thread.new { task.join(0.001) }.value
      assert_nil Thread.new { task.join(0) }.value
      assert_kind_of TypeError, Thread.new { raised { task.join("soon") } }.value
      task.cancel
    end
  end

  def test_a_failure_is_raised_in_the_thread_that_waits
    in_run do |scope|
      gate = Thread::Queue.new
      task = scope.spawn { gate.pop && raise("no") }
      thread = Thread.new { raised { task.value } }
      pass_until("the thread to wait") { thread.status == "sleep" }
      gate << :go
      assert_equal "no", thread.value.message
    end
  end

  def test_a_task_of_another_threads_loop
    in_run do |scope|
      gate = Thread::Queue.new
      task = scope.spawn { gate.pop && :value }
      other = Thread.new { NeverBlock.run { |inner| Array.new(3) { inner.spawn { task.value } }.map(&:value) } }
      pass_until("the other loop to sleep") { other.status == "sleep" }
      gate << 1
      assert_equal [:value] * 3, other.value
    end
  end

  def test_two_loops_that_wait_for_each_other
    first, second, gate = Array.new(3) { Thread::Queue.new }
    loops = [[first, second, 1], [second, first, 2]].map do |mine, theirs, value|
      Thread.new do
        NeverBlock.run do |scope|
          mine << scope.spawn { gate.pop && value }
          theirs.pop.value
        end
      end
    end
    wait_until("both loops to sleep") { loops.all? { |thread| thread.status == "sleep" } }
    2.times { gate << 1 }
    assert_equal [2, 1], loops.map(&:value)
  end

  def test_cancel
    in_run do |scope|
      task = parked(scope.spawn { sleep })
      assert_equal true, Thread.new { task.cancel }.value
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      assert_equal false, Thread.new { task.cancel }.value
    end
  end

  def test_cancel_wakes_a_loop_that_is_asleep_in_the_kernel
    task = Thread::Queue.new
    loop_thread = Thread.new { NeverBlock.run { |scope| raised { scope.spawn { sleep }.tap { |one| task << one }.value } } }
    sleeping = task.pop
    wait_until("the loop to sleep") { loop_thread.status == "sleep" }
    sleeping.cancel
    assert_kind_of NeverBlock::Cancelled, loop_thread.join(NeverBlockTest::LIMIT)&.value
  end

  def test_cancel_of_an_unstarted_task
    in_run do |scope|
      task = scope.spawn { flunk "it ran" }
      NB.neverblock(false) { assert_equal true, Thread.new { task.cancel }.value } # the loop is blocked meanwhile
      assert_predicate task, :cancelled?
    end
  end

  def test_scope_cancel
    log = []
    in_run do |scope|
      3.times do
        parked(scope.spawn do
          sleep
        ensure
          log << 1
        end)
      end
      Thread.new { scope.cancel }.join
    end
    assert_equal 3, log.size
  end

  # ---- scope.spawn ----
  def test_spawn
    in_run do |scope|
      task = Thread.new { scope.spawn(1, name: "there") { |n| [n, Thread.current] } }.value
      assert_equal [1, Thread.current], task.value
      assert_equal "there", task.name
    end
  end

  def test_spawn_wakes_a_loop_that_is_asleep_in_the_kernel
    scopes, log = Thread::Queue.new, []
    loop_thread = Thread.new do
      NeverBlock.run do |scope|
        scopes << scope
        Thread::Queue.new.pop(timeout: 20) until log.any?
      end
    end
    scope = scopes.pop
    wait_until("the loop to sleep") { loop_thread.status == "sleep" }
    scope.spawn { log << :ran }
    wait_until("the task") { log.any? }
    loop_thread.kill.join
  end

  def test_value_of_a_task_that_a_thread_spawned
    in_run do |scope|
      threads = Array.new(5) { |t| Thread.new { Array.new(50) { |n| scope.spawn { nap(0.0005) && t * n } }.sum(&:value) } }
      assert_equal (0..4).map { |t| t * 49 * 25 }, threads.map(&:value)
    end
  end

  def test_the_scope_waits_for_tasks_that_threads_have_spawned
    count, threads = 0, nil
    in_run do |scope|
      threads = Array.new(4) { Thread.new { 250.times { scope.spawn { count += 1 } } } }
      threads.each(&:join)
    end
    assert_equal 1_000, count
  end

  # Each spawn is either refused, cancelled, or its task has run when the run returns; none is lost.
  def test_spawn_while_the_scope_ends
    on_thread do
      200.times do
        ran, scopes = 0, Thread::Queue.new
        spawner = Thread.new do
          scope = scopes.pop
          spawned = 0
          begin
            20.times { scope.spawn { ran += 1 } && spawned += 1 }
          rescue NeverBlock::ClosedError
          end
          spawned
        end
        NeverBlock.run { |scope| (scopes << scope) && nap(0.0001) }
        assert_equal spawner.value, ran
      end
      assert_nothing_left NeverBlock::Scheduler.kept
    end
  end

  def test_spawn_when_the_scope_has_ended
    scope = in_run { |open| open }
    assert_kind_of NeverBlock::ClosedError, Thread.new { raised { scope.spawn {} } }.value
  end

  def test_spawn_in_a_cancelled_scope
    in_run do |scope|
      scope.cancel
      assert_equal :cancelled, Thread.new { scope.spawn { flunk "it ran" }.state }.value
    end
  end

  def test_a_failure_of_a_task_that_a_thread_spawned_fails_the_run
    assert_equal "no", raised { in_run { |scope| Thread.new { scope.spawn { raise "no" } } && sleep } }&.message
  end

  # ---- the loop's own thread ----
  def test_thread_raise_cancels_the_run_and_is_raised_from_it
    log, ready = [], Thread::Queue.new
    thread = Thread.new do
      Thread.current.report_on_exception = false
      NeverBlock.run do |scope|
        scope.spawn do
          ready << true
          sleep
        ensure
          nap
          log << :ensure
        end
        sleep
      end
    end
    ready.pop
    wait_until("the loop to sleep") { thread.status == "sleep" }
    thread.raise(IOError, "from outside")
    assert_equal "from outside", raised { thread.value }.message
    assert_equal [:ensure], log
  end

  def test_thread_kill_runs_the_ensures
    [false, true].each do |busy|
      log, ready = [], Thread::Queue.new
      thread = Thread.new do
        NeverBlock.run do |scope|
          scope.spawn do
            ready << true
            busy ? loop { NB.pass } : sleep
          ensure
            nap
            log << :ensure
          end
          NeverBlock.run do
            sleep
          ensure
            log << :block
          end
        end
      end
      ready.pop
      assert thread.kill.join(NeverBlockTest::LIMIT), "a #{busy ? "busy" : "sleeping"} loop was not killed"
      assert_equal %i[block ensure], log.sort
    end
  end

  def test_thread_exit_in_a_task_ends_the_thread_and_runs_the_ensures
    log = []
    thread = Thread.new do
      NeverBlock.run do |scope|
        scope.spawn do
          sleep
        ensure
          log << :ensure
        end
        scope.spawn { Thread.exit }
        sleep
      end
      log << :never
    end
    assert thread.join(NeverBlockTest::LIMIT)
    assert_equal [:ensure], log
  end

  def test_a_threads_kept_loop_ends_with_the_thread
    assert_ruby(<<~RUBY)
      require "neverblock"
      200.times { Thread.new { NeverBlock.run { sleep 0 } }.join }
      3.times { GC.start }
      left = ObjectSpace.each_object(NeverBlock::Scheduler).count
      descriptors = Dir.children("/proc/self/fd").size
      abort "\#{left} schedulers and \#{descriptors} descriptors are left" if left > 20 || descriptors > 60
    RUBY
  end
end
