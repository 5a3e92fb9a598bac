# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "tempfile"
require "zlib"

class OffloadTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  def test_runs_the_block_on_another_thread_while_other_tasks_continue
    in_run do |scope|
      log = []
      gate = Thread::Queue.new
      scope.spawn { (log << :other) && gate << true }
      thread = NeverBlock.offload do
        gate.pop
        log << :offloaded
        Thread.current
      end
      refute_same Thread.current, thread
      assert_equal %i[other offloaded], log
    end
  end

  def test_returns_the_blocks_value_and_raises_its_error
    in_run do
      assert_equal 1, NB.offload { 1 }
      assert_nil NB.offload {}
      assert_equal ["no", IOError], raised { NB.offload { raise IOError, "no" } }.then { |error| [error.message, error.class] }
      assert_kind_of NotImplementedError, raised { NB.offload { raise NotImplementedError } }
      assert_kind_of LocalJumpError, raised { NB.offload { break } }
      assert_kind_of UncaughtThrowError, raised { NB.offload { throw :out } }
    end
  end

  def test_a_block_that_kills_its_thread
    in_run do
      assert_match(/thread of this offloaded call was killed/, raised { NB.offload { Thread.current.kill } }.message)
      assert_equal 1, NB.offload { 1 }
    end
  end

  def test_outside_a_loop_it_runs_in_place
    assert_same Thread.current, NB.offload { Thread.current }
    in_run { NB.neverblock(false) { assert_same Thread.current, NB.offload { Thread.current } } }
    in_run { assert_equal 2, NB.offload { NB.offload { 2 } } }
  end

  def test_needs_a_block
    assert_match(/needs a block/, assert_raises(ArgumentError) { NB.offload }.message)
  end

  def test_more_calls_than_threads
    running, most, lock, gate = 0, 0, Mutex.new, Thread::Queue.new
    threads = NeverBlock::ThreadPool.offload.stats[:limit]
    in_run do |scope|
      calls = scope.spawn do
        NeverBlock.concurrently(0...100, limit: 100) do |n|
          NB.offload do
            lock.synchronize { most = [most, running += 1].max }
            gate.pop
            lock.synchronize { running -= 1 }
            n
          end
        end
      end
      pass_until("all threads to be busy") { gate.num_waiting == threads }
      gate.close
      assert_equal (0...100).to_a, calls.value
    end
    assert_equal threads, most
  end

  def test_a_cancelled_caller_leaves_at_once
    gate, log, begun = Thread::Queue.new, [], false
    in_run do |scope|
      task = parked(scope.spawn { NB.offload { (begun = true) && gate.pop && log << :ended_for_nobody } })
      pass_until("the call's beginning") { begun }
      task.cancel
      assert_kind_of NeverBlock::Cancelled, raised { task.value }
      assert_kind_of NeverBlock::TimeoutError, raised { NeverBlock.timeout(0.002) { NB.offload { gate.pop } } }
      2.times { gate << true }
      pass_until("the call's end") { log.any? }
    end
  end

  def test_a_queued_call_of_a_cancelled_caller_never_begins
    gate, log = Thread::Queue.new, []
    in_run do |scope|
      busy = Array.new(16) { scope.spawn { NB.offload { gate.pop } } }
      NB.pass
      queued = parked(scope.spawn { NB.offload { log << :begun } })
      queued.cancel
      raised { queued.value }
      16.times { gate << true }
      busy.each(&:join)
      NB.offload {}
    end
    assert_empty log
  end

  def test_storage_is_the_callers_and_the_thread_keeps_none
    in_run do |scope|
      seen = Array.new(40) do |n|
        scope.spawn do
          Fiber[:user] = n
          NB.offload do
            before = [Fiber[:user], Thread.current[:local]]
            Fiber[:user] = Thread.current[:local] = :dirty
            before
          end.tap { assert_equal n, Fiber[:user] }
        end
      end
      assert_equal (0...40).map { |n| [n, nil] }, seen.map(&:value)
    end
  end

  def test_a_busy_pool_is_not_a_deadlock
    in_run do
      200.times { assert_equal 1, NB.offload { 1 } }
      waiting = Thread.current
      NB.offload { Thread.pass until waiting.status == "sleep" }
    end
  end

  # R6 of the runtime's review: they waited for a thread.
  def test_the_operations_of_core_never_wait_behind_offloaded_calls
    gate, pool = Thread::Queue.new, NeverBlock::ThreadPool.offload
    in_run do |scope|
      pool.stats[:limit].times { scope.spawn { NB.offload { gate.pop } } }
      pass_until("all threads to be busy") { pool.stats.then { |stats| stats[:threads] == stats[:limit] && stats[:idle].zero? } }
      assert_equal File.size(__FILE__), File.open(__FILE__) { |file| file.read.bytesize }
      Tempfile.create { |file| assert_equal File.size(__FILE__), IO.copy_stream(__FILE__, file.path) }
      content = "x" * 1_000_000
      assert_equal content, Zlib.inflate(Zlib.deflate(content))
      assert_equal "127.0.0.1", Addrinfo.getaddrinfo("127.0.0.1", 80, :INET).first.ip_address
      Process.wait(spawn("true"))
      assert_kind_of NeverBlock::TimeoutError, raised { NeverBlock.timeout(0.002) { NB.offload { flunk "it ran" } } }
    ensure
      gate.close
    end
  end

  # R6: each waited for a thread that another one held.
  def test_runs_inside_as_many_offloaded_calls_as_there_are_threads
    size = NeverBlock::ThreadPool.offload.stats[:limit]
    in_run do
      sizes = NB.concurrently(1..size) { NB.offload { NeverBlock.run { File.open(__FILE__) { |file| NB.offload { file.size } } } } }
      assert_equal [File.size(__FILE__)], sizes.uniq
    end
  end

  def test_calls_inside_calls_that_are_more_than_the_threads
    assert_equal "5 5 10\n", assert_ruby(<<~RUBY, environment: {"NEVERBLOCK_THREADS" => "1"})
      require "neverblock"
      nested = ->(depth) { depth.zero? ? 0 : NB.offload { NeverBlock.run { nested.call(depth - 1) } } + 1 }
      threaded = ->(depth) { depth.zero? ? 0 : NB.offload { Thread.new { NeverBlock.run { threaded.call(depth - 1) } }.value } + 1 }
      NeverBlock.run { print nested.call(5), " ", threaded.call(5), " " }
      puts NeverBlock.concurrently([2, 3, 5]) { |depth| nested.call(depth) }.sum
    RUBY
  end

  def test_the_number_of_threads_can_be_set
    assert_equal "2\n", assert_ruby(<<~RUBY, environment: {"NEVERBLOCK_THREADS" => "2"})
      require "neverblock"
      gate = Queue.new
      NeverBlock.run do |scope|
        10.times { scope.spawn { NB.offload { gate.pop } } }
        NB.pass until gate.num_waiting == 2
        puts NeverBlock::ThreadPool.offload.stats[:threads]
        gate.close
      end
    RUBY
  end

  slow "it starts Ruby several times"
  def test_an_invalid_number_of_threads_is_named
    ["many", "0", "-1"].each do |number|
      outcome = run_ruby('require "neverblock"; NeverBlock.run { NB.offload {} }', environment: {"NEVERBLOCK_THREADS" => number})
      refute_predicate outcome.status, :success?
      assert_match(/NEVERBLOCK_THREADS="?#{number}"?.*positive/, outcome.stderr)
    end
  end

  slow "ten thousand calls"
  def test_ten_thousand_calls
    on_thread do
      sum = NeverBlock.run { NeverBlock.concurrently(1..10_000, limit: 200) { |n| NB.offload { n } }.sum }
      assert_equal 50_005_000, sum
      assert_nothing_left NeverBlock::Scheduler.kept
    end
  end
end
