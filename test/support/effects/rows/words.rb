# frozen_string_literal: true

require "stringio"
require "zlib"

# NeverBlock's own methods, and core's operations that run on its threads.
module NeverBlockTest
  module Effects
    row "`NeverBlock.offload`", :goes_on do
      begun, answer, log = gate, gate, []
      operation(:job) { NB.offload { (begun << true) && log << answer.pop } }
      under_way { begun.size == 1 }
      check do
        assert_empty log
        answer << :value
        wait_until("the call to end") { log == [:value] }
        assert_equal 1, NB.offload { 1 }
      end
    end

    row "`NeverBlock.offload`, while it waits for a thread", :withdrawn do
      pool = NeverBlock::ThreadPool.offload
      answer, log = gate, []
      busy = other { NeverBlock.run { NB.concurrently(1..pool.stats[:limit], limit: 99) { NB.offload { answer.pop } } } }
      wait_until("all threads to be busy") { pool.stats.then { |stats| stats[:threads] == stats[:limit] && stats[:idle].zero? } }
      operation(:job) { NB.offload { log << :begun } }
      check do
        answer.close
        busy.join
        assert_equal 1, NB.offload { 1 }
        assert_empty log
      end
    end

    ZLIB = [-> { Zlib.inflate(Zlib.deflate(CONTENT)) }, -> { Zlib.gunzip(Zlib.gzip(CONTENT)) },
      -> { Zlib::Inflate.new.inflate(Zlib::Deflate.new.deflate(CONTENT, Zlib::FINISH)) }].freeze

    row "`Zlib.deflate`, `Zlib.inflate`, `Zlib.gzip`, `Zlib.gunzip`, `Zlib::Deflate#deflate`, `Zlib::Inflate#inflate`, of large data", :waited_for, calls: ZLIB do |act|
      operation(:job, brief: true, value: false) { act.call }
      check { assert_bytes act.call, value if returned? }
    end

    row "`IO::Buffer#copy`, `Zlib::GzipWriter#write`, `Zlib::GzipReader#read`, of large data (Ruby 3.4 and later)", :waited_for, since: "3.4",
      calls: [-> { IO::Buffer.for(+"\0" * FLOOD.bytesize) { |buffer| buffer.copy(IO::Buffer.for(FLOOD)) && buffer.get_string } },
        -> { Zlib::GzipReader.new(StringIO.new(StringIO.new.tap { |io| Zlib::GzipWriter.new(io).tap { |gzip| gzip.write(CONTENT) }.finish }.string)).read }] do |act|
      operation(:job, brief: true, value: false) { act.call }
      check { assert_bytes act.call, value if returned? }
    end

    row "`Task#join`, also with a limit, `Task#value`", :goes_on, calls: [:join.to_proc, ->(task) { task.join(60) }, :value.to_proc] do |act|
      answer, task = gate, nil
      operation(:block) do
        task = NB.spawn { answer.pop }
        act.call(task)
      end
      check do
        next assert_predicate(task, :cancelled?) if loop_ended?
        assert_predicate task, :alive?
        answer << :value
        assert_equal :value, task.value
      end
    end

    row "a nested `NeverBlock.run`", :withdrawn do
      log = []
      operation(:block) do
        NeverBlock.run do |scope|
          scope.spawn do
            sleep
          ensure
            NB.pass
            log << :ended
          end
        end
      ensure
        log << :left
      end
      under_way { NB.tasks.size == 3 && NB.tasks.last.waits_for&.include?("sleep") }
      check { assert_equal %i[ended left], log }
    end

    row "`NeverBlock.concurrently`", :withdrawn do
      log, items = [], (1..).each
      operation(:block) do
        NeverBlock.concurrently(items, limit: 2) do |n|
          sleep
        ensure
          log << n
        end
      end
      under_way { NB.tasks.count { |task| task.waits_for&.include?("sleep") } == 2 }
      check do
        assert_equal [1, 2], log.sort
        assert_operator items.next, :<=, 4
      end
    end

    row "`NeverBlock.race`", :withdrawn do
      first, second = Thread::Queue.new, Thread::Queue.new
      operation(:block) { NeverBlock.race(-> { first.pop }, -> { second.pop }) }
      under_way { first.num_waiting + second.num_waiting == 2 }
      check do
        [first, second].each do |queue|
          assert_equal 0, queue.num_waiting
          queue << :item
          assert_equal :item, queue.pop
        end
      end
    end

    row "`NeverBlock.as_completed`", :withdrawn do
      log, others = [], gate
      given = nil
      operation(:block) do
        given = NB.spawn { others.pop }
        asking = lambda do
          sleep
        ensure
          log << :ended
        end
        NeverBlock.as_completed([given, asking]) { |value| log << value }
      end
      under_way { NB.tasks.any? { |task| task.waits_for&.include?("sleep") } }
      check do
        assert_equal [:ended], log
        next assert_predicate(given, :cancelled?) if loop_ended?
        others << :value
        assert_equal :value, given.value
      end
    end

    row "`NeverBlock.select`, also with a `timeout:`", :withdrawn, calls: [nil, 60] do |timeout|
      first, second, full = Thread::Queue.new, Thread::Queue.new, Thread::SizedQueue.new(1)
      full << :first
      operation(:block) do
        NeverBlock.select(timeout:) { |on| on.pop(first) && on.pop(second) && on.push(full, :second) }
      end
      check do
        [first, second].each do |queue|
          queue << :item
          assert_equal [1, :item], [queue.size, queue.pop]
        end
        assert_equal [:first, 0], [full.pop, full.size]
      end
    end

    row "`Promise#value`, `Promise#wait`, also with a `timeout:`", :goes_on, calls: %i[value wait].product([nil, 60]) do |name, timeout|
      promise = NB::Promise.new
      operation(:block) { promise.public_send(name, timeout:) }
      check do
        refute_predicate promise, :settled?
        assert promise.fulfill(:value)
        assert_equal :value, promise.value
      end
    end

    row "`NeverBlock.shield`", :waited_for do
      log = []
      gate = pipe
      operation(:io) { NeverBlock.shield { log << gate.first.readpartial(1) } && :value }
      shielded { gate.last << "x" }
      check { assert_equal [["x"], :value], [log, value] }
    end

    row "`NeverBlock.timeout`, `timeout_at`, `move_on_after`, `Timeout.timeout`", :withdrawn, calls: [
      -> { NeverBlock.timeout(60) { sleep } }, -> { Timeout.timeout(60) { sleep } }, -> { NeverBlock.move_on_after(60) { sleep } },
      -> { NeverBlock.timeout_at(Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60) { sleep } }
    ] do |act|
      operation(:sleep) { act.call }
      check { assert_nil Fiber.scheduler.next_deadline, "its timer is left" }
    end

    row "`Semaphore#acquire`, also with a `timeout:`", :withdrawn, calls: [nil, 60] do |timeout|
      semaphore = NB::Semaphore.new(1)
      semaphore.acquire
      operation(:block) { semaphore.acquire(timeout:) }
      check do
        assert_equal 0, semaphore.available
        semaphore.release
        assert_equal 1, semaphore.available
        assert_equal :value, semaphore.acquire { :value }
        assert_equal 1, semaphore.available
      end
    end

    row "`ConnectionPool#with`, while it waits for a connection, also with a `timeout:`", :withdrawn, calls: [nil, 60] do |timeout|
      pool = NB::ConnectionPool.new(size: 1) { :connection }
      taken = Thread.new { pool.checkout && sleep }
      Thread.pass until taken.stop?
      operation(:block) { pool.with(timeout:) { raise "it was lent" } }
      check do
        assert_equal [1, 0], pool.stats.values_at(:held, :waiting)
        taken.kill.join
        assert_equal :connection, pool.with { |connection| connection }
        assert_equal 1, pool.available
      end
    end

    row "`FiberPool#drain`, also with a limit", :goes_on, calls: [nil, 60] do |limit|
      pool, answer, log = NB::FiberPool.new(1), gate, []
      operation(:block) do
        pool.spawn { log << answer.pop }
        pool.drain(limit)
      end
      check do
        next assert_equal({size: 1, running: 0, queued: 0, finished: 1, failed: 0}, pool.stats) if loop_ended?
        assert_equal 1, pool.stats[:running]
        answer << :value
        assert_same pool, pool.drain
        assert_equal [:value], log
      end
    end

    row "`FiberPool#spawn`, while the task is queued", :goes_on, calls: %i[join value].map(&:to_proc) do |act|
      pool, answer, log = NB::FiberPool.new(1), gate, []
      operation(:block) do
        pool.spawn { answer.pop }
        act.call(pool.spawn { log << :ran })
      end
      check do
        next assert_equal([[], 0], [log, pool.stats[:queued]]) if loop_ended?
        assert_equal 1, pool.stats[:queued]
        answer << :value
        pool.drain
        assert_equal [:ran], log
      end
    end

    row "`Flight#call` that computes", :withdrawn do
      flight, log, computing = NB::Flight.new, [], gate
      operation(:sleep) do
        flight.call(:key) do
          computing << true
          sleep
        ensure
          log << :unwound
        end
      end
      follower = other { computing.pop && flight.call(:key) { log << :computes && :value } }
      under_way { follower.status == "sleep" && computing.empty? && flight.size == 1 }
      check do
        assert_equal :value, follower.value
        assert_equal %i[unwound computes], log
        assert_equal 0, flight.size
      end
    end

    row "`Flight#call` that waits for another's value", :goes_on do
      flight, computing, answer, calls = NB::Flight.new, gate, gate, []
      leader = other { flight.call(:key) { (computing << true) && calls << :leader && answer.pop } }
      computing.pop
      operation(:block) { flight.call(:key) { calls << :follower } }
      check do
        assert_equal 1, flight.size
        answer << :value
        assert_equal :value, leader.value
        assert_equal [[:leader], 0], [calls, flight.size]
      end
    end
  end
end
