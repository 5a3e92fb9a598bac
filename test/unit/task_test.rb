# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class TaskTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  # ---- join, value ----
  def test_value_waits_and_returns_the_blocks_value
    in_run do |scope|
      task = scope.spawn { sleep 1 and :value }
      assert_equal [:value, :value], [task.value, task.value]
      assert_same task, task.join
    end
  end

  # For callers that have a fiber only, such as the holder of a connection.
  def test_tasks_of_fibers
    in_run do |scope|
      tasks = Array.new(3) { scope.spawn { sleep } }
      NeverBlock.pass until tasks.all?(&:fiber)
      scheduler = NeverBlock::Scheduler.current
      assert_equal [tasks[2], nil, tasks[0]], scheduler.tasks_of([tasks[2].fiber, Fiber.new {}, tasks[0].fiber])
      assert_equal [[], [nil]], [scheduler.tasks_of([]), scheduler.tasks_of([Fiber.new {}])]
      ended = scope.spawn { Fiber.current }.value
      assert_equal [nil], scheduler.tasks_of([ended])
      assert_raises(TypeError) { scheduler.tasks_of(ended) }
      scope.cancel
    end
  end

  # For fibers that ask whether others wait for one of their locks.
  def test_locks_that_fibers_wait_for
    in_run do |scope|
      mutex, monitor = Thread::Mutex.new, Monitor.new
      scheduler = NeverBlock::Scheduler.current
      tasks = nil
      mutex.synchronize do
        monitor.synchronize do
          tasks = [-> { mutex.synchronize {} }, -> { mutex.synchronize {} }, -> { monitor.synchronize {} }, -> { sleep }].map { |wait| scope.spawn(&wait) }
          NeverBlock.pass until tasks.all? { |task| task.fiber && task.inspect.include?("waiting") }
          first, _, third, sleeper = tasks.map(&:fiber)
          locks = scheduler.locks_awaited([sleeper, third])
          assert_equal [2, true, true], [locks.size, locks.include?(mutex), locks.all?(&:owned?)]
          assert_equal locks, scheduler.locks_awaited([first])
          assert_equal [[], []], [scheduler.locks_awaited([sleeper, Fiber.new {}]), scheduler.locks_awaited([])]
          refute scope.spawn { locks.any?(&:owned?) }.value, "another fiber owns none"
        end
      end
      tasks.first(3).each(&:join)
      assert_equal [], scheduler.locks_awaited(tasks.map(&:fiber))
      assert_raises(TypeError) { scheduler.locks_awaited(nil) }
      scope.cancel
    end
  end

  # R11 of the runtime's review: it raised RangeError.
  def test_an_infinite_limit_means_no_limit
    in_run do |scope|
      task = scope.spawn { sleep(1) && :value }
      assert_same task, task.join(Float::INFINITY)
      gate = Queue.new
      thread = Thread.new { gate.pop }
      scope.spawn { sleep(1) && gate << :go }
      assert_same thread, thread.join(Float::INFINITY)
    end
  end

  def test_join_with_a_limit
    in_run do |scope|
      task = scope.spawn { sleep }
      assert_nil task.join(0)
      assert_nil task.join(2)
      assert_in_delta 2, clock.elapsed
      assert_nil task.join(0.5r)
      assert_in_delta 2.5, clock.elapsed
      assert_predicate task, :alive?
      task.cancel
      assert_same task, task.join(10)
      assert_same task, task.join(0)
    end
  end

  def test_join_with_a_bad_limit
    in_run do |scope|
      task = scope.spawn { sleep 1 }
      assert_raises(TypeError) { task.join("soon") }
      assert_raises(ArgumentError) { task.join(-1) }
      assert_raises(ArgumentError) { task.join(1, 2) }
    end
  end

  def test_value_and_join_raise_the_blocks_error_every_time
    in_run do |scope|
      task = scope.spawn { raise IOError, "no" }
      errors = [raised { task.value }, raised { task.join }, raised { task.join(1) }, task.error]
      assert_equal ["no"] * 4, errors.map(&:message)
      assert_equal 1, errors.uniq(&:object_id).size
    end
  end

  def test_many_waiters_of_one_task
    in_run do |scope|
      task = scope.spawn { sleep 1 and 7 }
      assert_equal [7] * 100, Array.new(100) { scope.spawn { task.value } }.map(&:value)
    end
  end

  def test_a_chain_of_a_thousand
    in_run do |scope|
      last = scope.spawn { sleep 1 and 0 }
      1_000.times { last = scope.spawn(last) { |before| before.value + 1 } }
      assert_equal 1_000, last.value
    end
  end

  def test_a_task_cannot_wait_for_itself
    in_run do
      error = assert_raises(ThreadError) { NeverBlock::Task.current.value }
      assert_match(/can't wait for itself/, error.message)
    end
  end

  def test_waiting_in_a_blocking_section_is_an_error
    in_run do |scope|
      task = scope.spawn { sleep 1 and 1 }
      error = NB.neverblock(false) { assert_raises(ThreadError) { task.value } }
      assert_match(/blocking section.*Wait outside/, error.message)
      assert_equal 1, task.value
      assert_equal 1, NB.neverblock(false) { task.value }
    end
  end

  def test_waiting_inside_an_enumerator
    in_run do |scope|
      values = Enumerator.new { |yielder| yielder << scope.spawn { sleep 1 and 1 }.value }
      assert_equal 1, values.next
    end
  end

  def test_value_after_the_run
    tasks = nil
    raised do
      in_run do |scope|
        tasks = [scope.spawn { 1 }, scope.spawn { sleep }, scope.spawn { sleep(1) && raise("no") }]
        sleep
      end
    end
    assert_equal [false, nil, nil], tasks.map(&:status)
    assert_equal %i[returned cancelled failed], tasks.map(&:state)
    assert_equal 1, tasks[0].value
    assert_kind_of NeverBlock::Cancelled, raised { tasks[1].value }
    assert_same tasks[1], tasks[1].join
    assert_equal "no", raised { tasks[2].join }.message
  end

  # ---- states ----
  def test_status_has_the_values_of_thread_status
    in_run do |scope|
      seen = nil
      running = scope.spawn { seen = [running.status, running.state, running.alive?] }
      assert_equal ["sleep", :new, true], [running.status, running.state, running.alive?]
      running.join
      assert_equal ["run", :running, true], seen
      assert_equal [false, :returned, false], [running.status, running.state, running.alive?]
      waiting = parked(scope.spawn { sleep })
      assert_equal ["sleep", :running, true], [waiting.status, waiting.state, waiting.alive?]
      waiting.cancel
      waiting.join
      assert_equal [:cancelled, false, true], [waiting.state, waiting.alive?, waiting.cancelled?]
      failed = scope.spawn { raise "no" }
      raised { failed.join }
      assert_equal [nil, :failed, false, false], [failed.status, failed.state, failed.alive?, failed.cancelled?]
    end
  end

  def test_tasks_come_from_spawn_only
    assert_raises(NoMethodError) { NeverBlock::Task.new }
    assert_raises(TypeError) { NeverBlock::Task.allocate }
  end

  def test_name
    in_run do |scope|
      task = scope.spawn {}
      assert_nil task.name
      task.name = "rates"
      assert_equal "rates", task.name
      assert_equal "other", scope.spawn(name: "other") {}.name
    end
  end

  # ---- current ----
  def test_current
    assert_nil NeverBlock::Task.current
    in_run do |scope|
      inside = nil
      task = scope.spawn { inside = NeverBlock::Task.current }
      task.join
      assert_same task, inside
      refute_same task, NeverBlock::Task.current
      assert_nil Thread.new { NeverBlock::Task.current }.value
    end
  end

  def test_current_inside_enumerators_and_fibers_and_across_their_waits
    in_run do |scope|
      seen = []
      tasks = Array.new(3) do
        scope.spawn do
          values = Enumerator.new do |yielder|
            3.times do
              yielder << NeverBlock::Task.current
              sleep 1
            end
          end
          4.times { seen << [NeverBlock::Task.current, values.next, Fiber.new { NeverBlock::Task.current }.resume] }
        rescue StopIteration
          seen << [NeverBlock::Task.current] * 3
        end
      end
      tasks.each(&:join)
      assert_equal 12, seen.size
      seen.each { |three| assert_equal 1, three.uniq.size }
      assert_equal [4], seen.map(&:first).tally.values.uniq
    end
  end

  def test_current_in_a_blocking_section_and_in_fiber_schedule
    in_run do
      task = NeverBlock::Task.current
      NB.neverblock(false) { assert_same task, NeverBlock::Task.current }
      scheduled = nil
      Fiber.schedule { scheduled = NeverBlock::Task.current }
      refute_same task, scheduled
      assert_kind_of NeverBlock::Task, scheduled
      assert_same task, NeverBlock::Task.current
    end
  end

  # ---- inspect, tasks ----
  def test_a_block_of_c_has_no_place
    in_run do |scope|
      of_c = scope.spawn(&Process.method(:pid))
      assert_equal "#<NeverBlock::Task waiting for its first turn>", of_c.inspect
      waiter = scope.spawn(name: "waiter") { of_c.join }
      of_c.join
      assert_equal "#<NeverBlock::Task returned>", of_c.inspect
      assert_match(/\A#<NeverBlock::Task "waiter" .*spawned at #{Regexp.escape(__FILE__)}:\d+>\z/, waiter.inspect)
    end
  end

  def test_inspect_has_the_place_of_spawning_and_the_wait
    in_run(exit: :cancel) do |scope|
      task = scope.spawn(name: "slow") { sleep 60 }
      here = "#{__FILE__}:#{__LINE__ - 1}"
      assert_equal "#<NeverBlock::Task \"slow\" waiting for its first turn spawned at #{here}>", task.inspect
      clock.advance(15)
      assert_equal "#<NeverBlock::Task \"slow\" waiting for the end of a sleep (45s left) spawned at #{here}>", task.inspect
      assert_equal task.inspect, task.to_s
      assert_equal here, task.spawned_at
      task.cancel
      task.join
      assert_equal "#<NeverBlock::Task \"slow\" cancelled spawned at #{here}>", task.inspect
    end
  end

  def test_the_description_of_each_kind_of_wait
    in_run(exit: :cancel) do |scope|
      reader, writer = IO.pipe
      socket, other = UNIXSocket.pair
      held = Mutex.new.tap(&:lock)
      named = scope.spawn(name: "rates") { sleep }
      nameless = scope.spawn { sleep }
      line = __LINE__ - 1
      full, answer = Queue.new, Queue.new
      {
        -> { sleep } => "the end of a sleep",
        -> { reader.read(1) } => "#<IO fd #{reader.fileno}> to be readable",
        -> { socket.recv(1) } => "#<UNIXSocket fd #{socket.fileno}> to be readable",
        -> { other.write("x" * 4_000_000) } => "#<UNIXSocket fd #{other.fileno}> to be writable",
        -> { IO.select([reader], nil, nil) } => "one of several descriptors",
        -> { full.pop } => "#<Thread::Queue>",
        -> { held.lock } => "#<Thread::Mutex>",
        -> { named.value } => "task \"rates\"",
        -> { nameless.join } => "#<NeverBlock::Task #{__FILE__}:#{line}>",
        -> { Thread.new { answer.pop }.join } => "#<Thread>",
        -> { NeverBlock.run { |inner| inner.spawn { sleep } } } => "#<NeverBlock::Scope>",
        -> { NB.offload { answer.pop } } => "a native thread or the kernel, for the block at #{__FILE__}:#{__LINE__}"
      }.each do |wait, words|
        task = scope.spawn(&wait)
        pass_until("#{task.inspect} to wait for #{words}") { task.waits_for == words }
        task.cancel
      end
    ensure
      [reader, writer, socket, other, answer].each(&:close)
    end
  end

  def test_waiting_for_a_process
    in_run do |scope|
      pid = Process.spawn("sleep 60")
      task = scope.spawn { Process.wait(pid) }
      on_a_thread = "a native thread or the kernel, for #{pid}" # if there is no pidfd
      pass_until("the wait") { ["process #{pid}", on_a_thread].include?(task.waits_for) }
      Process.kill(:KILL, pid)
      assert_equal pid, task.value
    end
  end

  def test_tasks_lists_the_unfinished_ones_of_this_loop
    assert_empty NeverBlock.tasks
    in_run do |scope|
      ended = scope.spawn {}
      waiting = scope.spawn(name: "waiting") { sleep 60 }
      ended.join
      assert_equal [NeverBlock::Task.current, waiting], NeverBlock.tasks
      facts = NeverBlock.tasks.last
      assert_equal "waiting", facts.name
      assert_match(/task_test.rb:\d+\z/, facts.spawned_at)
      assert_match(/the end of a sleep/, facts.waits_for)
      clock.advance(20)
      assert_in_delta 20, facts.age
      assert_empty Thread.new { NeverBlock.tasks }.value
      waiting.cancel
    end
  end

  def test_tasks_of_the_functions_name_the_users_block
    in_run do
      site = "#{__FILE__}:#{__LINE__ + 1}"
      NeverBlock.concurrently([1]) { assert_equal site, NeverBlock::Task.current.spawned_at }
      site = "#{__FILE__}:#{__LINE__ + 1}"
      NeverBlock.race(-> { assert_equal site, NeverBlock::Task.current.spawned_at })
    end
  end

  # ---- Fiber.schedule ----
  def test_fiber_schedule_inside_a_run_joins_the_innermost_scope
    log = []
    in_run do
      NeverBlock.run do |inner|
        fiber = Fiber.schedule do
          log << :at_once
          sleep 1
          log << :later
        end
        assert_kind_of Fiber, fiber
        log << :caller
        assert_equal 1, inner.tasks.size
      end
      log << :after
    end
    assert_equal %i[at_once caller later after], log
  end

  def test_fiber_schedule_gives_fresh_fibers_that_end
    in_run do
      fibers = Array.new(10) { Fiber.schedule {} }
      assert_equal 10, fibers.uniq(&:object_id).size
      pass_until("their ends") { fibers.none?(&:alive?) }
    end
  end

  def test_a_failing_fiber_schedule_fails_the_run
    assert_equal "scheduled", raised { in_run { Fiber.schedule { raise "scheduled" } && sleep } }&.message
  end
end
