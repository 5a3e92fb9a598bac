# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "support/runs"
require "tmpdir"

# The pool beneath offload; its effects for users are in api/offload_test.rb.
class ThreadPoolTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  def setup = @pool = NeverBlock::ThreadPool.new(limit: 2)

  def test_the_limit_is_a_positive_integer
    [0, "2", nil].each { |limit| assert_raises(ArgumentError) { NeverBlock::ThreadPool.new(limit:) } }
  end

  # Like the two ends of a FIFO, each of which opens when the other does.
  def test_calls_of_an_endless_pool_may_wait_for_one_another
    pool = NeverBlock::ThreadPool.new(limit: 1, endless: true)
    queues = Array.new(4) { Thread::Queue.new }
    in_run do
      values = NeverBlock.concurrently(queues.each_index) do |index|
        pool.call do
          queues[index - 1] << index if index.positive? # the first of them waits for the second, and so on
          (index == queues.size - 1) ? index : queues[index].pop
        end
      end
      assert_equal [1, 2, 3, 3], values
      wait_until("what looks after the queue to end") { Thread.list.none? { |thread| thread.name.to_s.end_with?("growing") } }
    end
  end

  def test_a_program_ends_beside_a_pool_that_grows
    assert_ruby(<<~RUBY)
      require "neverblock"
      pool = NeverBlock::ThreadPool.new(limit: 1, endless: true)
      NeverBlock.run do |scope|
        scope.spawn { pool.call { sleep } }
        scope.spawn { pool.call { sleep } }
        NB.pass
        exit!(1) unless Thread.list.any? { |thread| thread.name.to_s.end_with?("growing") }
        exit
      end
    RUBY
  end

  def test_one_per_ractor
    assert_same NeverBlock::ThreadPool.offload, Thread.new { NeverBlock::ThreadPool.offload }.value
    refute_same NeverBlock::ThreadPool.offload, NeverBlock::ThreadPool.operations
  end

  def test_threads_are_started_when_needed_and_used_again
    in_run do
      threads = Array.new(20) { free(@pool.call { Thread.current }) }
      assert_equal 1, threads.uniq.size
      gate, running, most = Thread::Queue.new, 0, 0
      together = NeverBlock.concurrently(1..10) do
        @pool.call do
          most = [most, running += 1].max
          (running == 2) ? gate.close : gate.pop # the first waits for a second
          running -= 1
          Thread.current
        end
      end
      assert_equal 2, (threads + together).uniq.size
      assert_equal 2, most
    end
  end

  # Waits until the thread could take the next call.
  def free(thread)
    pass_until("the thread to be idle") { NeverBlock::ThreadPool.idle?(thread) }
    thread
  end

  def test_serves_several_loops
    loops = Array.new(4) { |l| Thread.new { NeverBlock.run { NeverBlock.concurrently(1..20) { |n| @pool.call { n * l } } } } }
    assert_equal Array.new(4) { |l| (1..20).map { |n| n * l } }, loops.map(&:value)
  end

  def test_an_idle_thread_is_marked
    in_run do
      thread = @pool.call { Thread.current.tap { |current| refute NeverBlock::ThreadPool.idle?(current) } }
      pass_until("the thread to be idle") { NeverBlock::ThreadPool.idle?(thread) }
    end
    refute NeverBlock::ThreadPool.idle?(Thread.current)
  end

  # The call returns its value, and the cancellation is raised at the next wait.
  def test_a_caller_waits_for_the_end_with_at_end
    in_run do |scope|
      log, begun, gate = [], false, Thread::Queue.new
      task = parked(scope.spawn do
        log << @pool.call(leave: :at_end) { (begun = true) && gate.pop }
        sleep
      ensure
        log << :caller
      end)
      pass_until("the call") { begun }
      task.cancel
      3.times { NB.pass }
      assert_predicate task, :alive?
      gate << :value
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      assert_equal %i[value caller], log
    end
  end

  def test_a_call_that_may_never_end_is_interrupted
    in_run do |scope|
      Dir.mktmpdir do |folder|
        File.mkfifo("#{folder}/fifo")
        begun, interrupted = false, nil
        task = parked(scope.spawn do
          @pool.call(leave: :interrupted) do
            begun = true
            interrupted = open_interruptibly("#{folder}/fifo")
          end
          sleep
        end)
        pass_until("the call") { begun }
        task.cancel
        assert_kind_of NeverBlock::Cancelled, raised { task.value }
        assert_equal :interrupted, interrupted
        assert_equal 1, @pool.call { 1 } # the thread has recovered
      end
    end
  end

  # Core repeats open after EINTR; the interruption itself stays masked, and is recorded.
  def open_interruptibly(path)
    Thread.handle_interrupt(NeverBlock::ThreadPool::Job::Interruption => :on_blocking) { File.open(path) }
  rescue NeverBlock::ThreadPool::Job::Interruption
    :interrupted
  end

  def test_an_interruption_ends_only_its_own_call
    in_run do |scope|
      gate, over = Thread::Queue.new, false
      opener = Thread.new { (gate << true if gate.num_waiting.positive?) || Thread.pass until over }
      tasks = Array.new(300) { |n| scope.spawn { @pool.call(leave: n.even? ? :at_once : :interrupted) { gate.pop && n } } }
      tasks.each_slice(3) { |one, *| NB.pass && nil || one.cancel }
      outcomes = tasks.map { |task| outcome(task) }
      outcomes.each_with_index do |result, n|
        assert result == n || ((n % 3).zero? && result.is_a?(NeverBlock::Cancelled)), "#{n}: #{result.inspect}"
      end
    ensure
      over = true
      opener.join
    end
  end

  def test_without_another_thread_the_running_ones_do_all_calls
    in_run do
      refuse = ->(*) { raise ThreadError, "can't create Thread: Resource temporarily unavailable" }
      log = []
      error = Thread.stub(:new, refuse) { raised { @pool.call { log << :ran } } }
      assert_kind_of ThreadError, error
      assert_equal 1, @pool.call { 1 } # one thread at least
      gate = Thread::Queue.new
      both = [NB.spawn { @pool.call { gate.pop } }, NB.spawn { Thread.stub(:new, refuse) { @pool.call { 2 } } }]
      both.each { |task| parked(task) }
      gate << 1
      assert_equal [1, 2], both.map(&:value)
      assert_equal [1, []], [@pool.stats[:threads], log]
    end
  end

  # As when there is no memory for the thread's object: the pool counts no thread that does not exist.
  def test_a_thread_that_fails_to_start_for_any_reason_is_not_counted
    in_run do
      2.times do
        error = Thread.stub(:new, ->(*) { raise NoMemoryError }) { raised { @pool.call { flunk } } }
        assert_kind_of NoMemoryError, error
      end
      assert_equal 0, @pool.stats[:threads]
      assert_equal 2, @pool.call { 2 }
      assert_equal 1, @pool.stats[:threads]
    end
  end

  def test_calls_queued_when_the_last_thread_is_killed
    in_run do
      gate, begun = Thread::Queue.new, 0
      killed = Array.new(2) { NB.spawn { raised { @pool.call { (begun += 1) && gate.pop && Thread.current.kill } } } }
      pass_until("both calls") { begun == 2 }
      queued = Array.new(3) { |n| parked(NB.spawn { @pool.call { n } }) }
      2.times { gate << true }
      assert_equal [ThreadError] * 2, killed.map { |task| task.value.class }
      assert_equal [0, 1, 2], queued.map(&:value)
    end
  end

  # Its threads are killed one after the other, while calls are queued: none of those may begin.
  def test_no_call_begins_at_the_programs_end
    assert_equal "end\n", assert_ruby(<<~RUBY, environment: {"NEVERBLOCK_THREADS" => "1"})
      require "neverblock"
      begun = Thread::Queue.new
      2.times { Thread.new { NeverBlock.run { NB.offload { begun << true and sleep } } } }
      begun.pop
      Thread.pass until NeverBlock.stats[:pools][:offload][:queued] == 1
      $stdout.syswrite("end\n")
    RUBY
  end

  # Threads inherit the masks of their creators.
  def test_the_threads_do_not_inherit_the_callers_masks
    in_run do
      error = Thread.handle_interrupt(Timeout::Error => :never, RuntimeError => :never) do
        @pool.call { raised { Timeout.timeout(0.01) { sleep } } }
      end
      assert_kind_of Timeout::Error, error
      assert_nil @pool.call { Thread.handle_interrupt({}) { Thread.pending_interrupt? } || nil }
    end
  end

  def test_in_a_forked_child
    assert_equal "parent 1, 1 thread\nchild 2, 0 threads before\n", assert_ruby(<<~RUBY)
      require "neverblock"
      $stdout.sync = true
      threads = -> { NeverBlock.stats[:pools][:offload][:threads] }
      puts "parent \#{NeverBlock.run { NB.offload { 1 } }}, \#{threads.call} thread"
      Process.wait(fork { threads.call.then { |count| puts "child \#{NeverBlock.run { NB.offload { 2 } }}, \#{count} threads before" } })
    RUBY
  end
end
