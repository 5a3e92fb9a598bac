# frozen_string_literal: true

# engines: every - each back end leaves descriptors in the child

require "test_helper"
require "support/loops"

# Fork in a task: the forking task goes on in the child, blocking; the others are gone; a new run works.
class ForkTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  # A child reports its results to its parent, which prints them.
  PRELUDE = <<~'RUBY'
    require "neverblock"
    require "timeout"
    PARENT = Process.pid
    def where = Process.pid == PARENT ? "parent" : "child"
    def say(what) = $stdout.syswrite("#{where}: #{what}\n")
    # In a loop the fiber parks, and in a forked child its thread blocks.
    def nap(seconds = 0.01) = Queue.new.pop(timeout: seconds).nil?
    # Tasks whose timers are armed until they are cancelled.
    def timers(number = 1) = Array.new(number) { NB.spawn { nap(600) } }.tap { NB.pass }
    def reap(pid) = Process.wait2(pid).last.then { |status| say("status #{status.exitstatus.inspect}") unless status.success? }
  RUBY

  def program(code, **) = assert_ruby(PRELUDE + code, **).lines.map(&:chomp)

  def test_the_block_form
    assert_equal ["child: block", "parent: end", "parent: task"], program(<<~RUBY).sort
      NeverBlock.run do
        NB.spawn { nap; say "task" }
        NB.pass
        reap(fork { nap; say "block" })
      end
      say "end"
    RUBY
  end

  def test_the_if_form
    assert_equal ["child: forked", "parent: end", "parent: task"], program(<<~RUBY).reject { |line| line == "child: end" }.sort
      NeverBlock.run do
        NB.spawn { nap; say "task" }
        NB.pass
        if (pid = fork)
          reap(pid)
        else
          nap(0.05) # the parent's timer has passed
          say "forked"
        end
      end
      say "end"
    RUBY
  end

  def test_the_childs_status_is_the_forking_tasks
    outcome = run_ruby(<<~RUBY)
      require "neverblock"
      endings = [-> { exit 3 }, -> { raise "oh" }, -> { Process.kill(:KILL, Process.pid) }, -> { :returns }]
      NeverBlock.run do
        endings.each do |ending|
          NB.spawn do
            child = fork || (ending.call; next)
            Process.wait(child)
            $stdout.puts([$?.exitstatus, $?.termsig].inspect)
          end.join
        end
      end
    RUBY
    assert_equal "[3, nil]\n[1, nil]\n[nil, 9]\n[0, nil]\n", outcome.stdout
    assert_match(/oh \(RuntimeError\)/, outcome.stderr)
  end

  def test_the_child_runs_no_other_task_and_no_other_ensure
    assert_equal ["parent: ensure", "parent: late"], program(<<~RUBY).sort
      NeverBlock.run do
        parked = NB.spawn { begin; sleep; ensure; say "ensure"; end }
        NB.pass
        NB.spawn { say "late" }
        pid = fork
        if pid
          reap(pid)
          parked.cancel
        end
      end
      exit!(0) if where == "child"
    RUBY
  end

  slow "it starts Ruby"
  def test_blocking_calls_in_the_child_block
    assert_equal ["child: 42 7 true [1] nil", "child: slept"], program(<<~'RUBY')
      NeverBlock.run do
        timers = timers(10)
        reap(fork {
          queue = Queue.new
          value = Thread.new { 42 }.value
          Thread.new { nap; queue << 7 }
          popped = queue.pop
          r, w = IO.pipe
          Thread.new { nap; w << "x" }
          ready = IO.select([r]) == [[r], [], []]
          mutex, condition, signalled = Mutex.new, ConditionVariable.new, []
          thread = Thread.new { nap; mutex.synchronize { signalled << 1; condition.signal } }
          mutex.synchronize { condition.wait(mutex) while signalled.empty? }
          say "#{value} #{popped} #{ready} #{signalled} #{Fiber.scheduler.inspect}"
          thread.join
          sleep 0.01 # real: the child's own sleep, without a loop
          say "slept"
        })
        timers.each(&:cancel)
      end
    RUBY
  end

  FIRST_CALLS = <<~'RUBY'.lines.map(&:chomp)
    Thread.new { 1 }.value == 1
    Queue.new.pop(timeout: 0.01).nil?
    Mutex.new.synchronize { sleep(0.01) } # real: the first call of a child
    sleep(0.01) # real: the first call of a child
    IO.pipe.then { |r, w| w << 1; r.readpartial(1) } == "1"
    IO.select(nil, nil, nil, 0.01).nil?
    system("true")
    `echo x` == "x\n"
    Process.wait(spawn("true"))
    File.read("/dev/null") == ""
    Timeout.timeout(60) { nap }
    Thread.new { sleep }.join(0.001).nil?
    IO.popen("-") { |io| io ? io.read == "x" : print("x") } || true
    NeverBlock.run { nap }
    Fiber.new { sleep(0.01) }.resume # real: the first call of a child
    NeverBlock.spawn { nap }.value
    NeverBlock.pass.nil?
    Socket.getaddrinfo("127.0.0.1", nil).any?
    ConditionVariable.new.then { |c| Mutex.new.then { |m| m.synchronize { c.wait(m, 0.01) } } } || true
    NeverBlock::Semaphore.new(1).acquire { 1 } == 1
    NeverBlock.offload { 5 } == 5
  RUBY

  # Each is the first operation of a child.
  slow "it starts Ruby"
  def test_any_first_call_in_the_child
    assert_equal ["parent: #{FIRST_CALLS.size}"], program(<<~RUBY)
      require "socket"
      calls = #{FIRST_CALLS.inspect}
      good = 0
      NeverBlock.run do
        timers = timers(5)
        calls.each do |call|
          status = Process.wait2(fork { eval(call) or abort("false") }).last
          status.success? ? good += 1 : warn("\#{call}: \#{status}")
        end
        timers.each(&:cancel)
      end
      say good
    RUBY
  end

  def test_a_timeout_around_the_fork_ends_in_both
    assert_equal ["child: left", "parent: left"], program(<<~RUBY)
      NeverBlock.run do
        pid = Timeout.timeout(60) do
          Timeout.timeout(50) { fork.tap { GC.start; nap } }
        end
        GC.start
        reap(pid) if pid
        say "left"
      end
      exit!(0) if where == "child"
    RUBY
  end

  slow "it starts Ruby"
  def test_a_new_run_in_the_child_beside_the_loop_of_the_parent
    assert_equal ["child: [0, 1, 2] epoll|uring|poll", "child: served", "parent: 5"], program(<<~'RUBY').map { |line| line.sub(/(epoll|uring|poll)\z/, "epoll|uring|poll") }
      NeverBlock.run do
        timers = timers(5)
        r, w = IO.pipe
        reader = NB.spawn { r.read(1) }
        NB.pass
        pid = fork do
          NeverBlock.run do |scope|
            list = NB.concurrently(3.times) { |i| nap; i }
            say "#{list} #{NeverBlock.engine.name}"
          end
          NeverBlock.run { a, b = IO.pipe; t = NB.spawn { a.read(1) }; NB.pass; b << "z"; t.value; say "served" }
        end
        reap(pid)
        w << "x"
        reader.value
        say timers.count(&:cancel)
      end
    RUBY
  end

  def test_popen_with_a_dash
    assert_equal ["parent: child says hello"], program(<<~RUBY)
      NeverBlock.run do
        timer, = timers
        IO.popen("-") do |io|
          if io
            say io.read
          else
            nap
            print "child says hello"
          end
        end
        timer.cancel
      end
    RUBY
  end

  def test_system_backticks_and_spawn_beside_other_tasks
    assert_equal ["parent: true out 3"], program(<<~RUBY)
      NeverBlock.run do
        lines, writer = IO.pipe
        $stdin.reopen(lines) # each of the children waits for one line
        NB.spawn { 10.times { nap(0.002) }; 3.times { writer.puts } }
        results = NB.concurrently([-> { system("read line; true") }, -> { `read line; echo out`.chomp }, -> { Process.wait2(spawn("read line; exit 3")).last.exitstatus }], &:call)
        say results.join(" ")
      end
    RUBY
  end

  def test_daemon_from_the_only_task
    assert_equal ["daemon ran"], program(<<~RUBY)
      r, w = IO.pipe
      if fork.nil?
        r.close
        NeverBlock.run do
          Process.daemon(true, true)
          nap
          w << "daemon ran"
        end
        exit!(0)
      end
      Process.wait
      w.close
      puts r.read
    RUBY
  end

  slow "it starts Ruby"
  def test_fork_from_a_thread_beside_a_loop
    assert_equal ["child: new loop", "parent: end"], program(<<~RUBY)
      ready = Queue.new
      loop_thread = Thread.new { NeverBlock.run(exit: :cancel) { timers; ready << 1; sleep } }
      ready.pop
      reap(fork { NeverBlock.run { NB.spawn { nap }.join; say "new loop" } })
      loop_thread.kill.join
      say "end"
    RUBY
  end

  def test_fork_during_native_work
    assert_equal ["child: 3000000", "parent: 3000000"], program(<<~RUBY)
      require "tempfile"
      Tempfile.create("fork") do |file|
        NeverBlock.run do
          file.write("x" * 3_000_000)
          tasks = Array.new(20) { NB.spawn { Fiber.scheduler.fsync(file) } }
          NB.pass
          pid = fork { NeverBlock.run { Fiber.scheduler.fsync(file); say File.open(file.path) { |io| io.read.size } } }
          reap(pid)
          tasks.each(&:value)
          say File.size(file.path)
        end
      end
    RUBY
  end

  def test_closing_in_the_child_does_not_affect_the_parents_loop
    assert_equal ["parent: x"], program(<<~RUBY)
      NeverBlock.run do
        r, w = IO.pipe
        reader = NB.spawn { r.readpartial(1) }
        NB.pass
        reap(fork { r.close; w.close; GC.start; NeverBlock.run { nap } })
        w << "x"
        say reader.value
      end
    RUBY
  end

  # Its descriptors in the kernel are the parent's too: the child would wait for the parent's events.
  def test_a_child_of_a_trap_does_not_ask_the_kernel
    assert_equal "child 0\n", assert_ruby(<<~RUBY)
      require "neverblock"
      queue, scheduler, before, pid = Queue.new, nil, nil, 0
      trap(:USR1) do
        before = scheduler.statistics[:polls]
        pid = fork
        queue << 1 if pid
      end
      at_exit { puts "child \#{scheduler.statistics[:polls] - before}" unless pid }
      Thread.new { sleep }
      NeverBlock.run do
        scheduler = Fiber.scheduler
        signals = ["USR1"] # sent while the loop looks for a deadlock, before it waits
        scheduler.define_singleton_method(:alone?) { signals.shift&.then { |signal| Process.kill(signal, Process.pid) } && super() }
        queue.pop
      end
      Process.wait(pid)
    RUBY
  end

  slow "it starts Ruby"
  def test_a_standalone_scheduler
    assert_equal ["child: slept", "parent: task"], program(<<~RUBY).sort
      Thread.new do
        Fiber.set_scheduler(NeverBlock::Scheduler.new)
        Fiber.schedule { nap; say "task" }
        Fiber.schedule { reap(fork { nap; say "slept" }) }
      end.join
    RUBY
  end

  def test_a_grandchild
    assert_equal ["child: grandchild", "child: child", "parent: end"], program(<<~RUBY)
      NeverBlock.run do
        timer, = timers
        reap(fork { NeverBlock.run { inner, = timers; reap(fork { nap; say "grandchild" }); say "child"; inner.cancel } })
        timer.cancel
      end
      say "end"
    RUBY
  end

  # Found by the fuzzer: Ruby aborted the child at its exit.
  slow "it starts Ruby"
  def test_a_child_exits_although_its_parents_tasks_wait_for_a_lock
    endings = ["exit 3", "GC.start; exit 3", "at_exit { sleep 0.001; Mutex.new.synchronize { puts 1 } }; exit 3", "NeverBlock.run { sleep 0.001 }; exit 3",
      "at_exit { exit 3 }; raise 'oh'", "Thread.new { exit 3 }.join", "fork.tap { |pid| Process.wait(pid) if pid } ? exit($?.exitstatus) : exit(3)"]
    outcome = run_ruby(PRELUDE + <<~RUBY)
      require "monitor"
      mine, others = [Mutex.new, Mutex.new], Monitor.new
      NeverBlock.run do |scope|
        holder = scope.spawn { others.synchronize { sleep } }
        mine.each(&:lock)
        waiters = [*mine, others].flat_map { |lock| Array.new(3) { scope.spawn { lock.synchronize {} } } }
        NB.pass
        #{endings.inspect}.each { |ending| say Process.wait2(fork { eval(ending) }).last.exitstatus }
        mine.each(&:unlock)
        holder.cancel
        waiters.each(&:join)
      end
    RUBY
    assert_equal ["parent: 3"] * endings.size, outcome.stdout.lines(chomp: true) - ["1"], outcome.stderr
    assert_predicate outcome.status, :success?, outcome.stderr
  end

  # Regression: each unlock woke one of the parent's fibers, which were first in the queue.
  def test_a_lock_held_at_the_fork_wakes_its_waiters_in_the_child
    assert_equal ["child: true"], program(<<~RUBY)
      NeverBlock.run do |scope|
        lock = Mutex.new
        lock.synchronize do
          3.times { scope.spawn { lock.synchronize {} } }
          NB.pass
          reap(fork do
            sleep 0
            threads = Array.new(2) { Thread.new { lock.synchronize { nap(0.001) } } }
            Thread.pass until threads.all?(&:stop?)
            lock.unlock
            say threads.all? { |thread| thread.join(10) }
            lock.lock
          end)
        end
      end
    RUBY
  end

  def test_a_parents_fiber_unwound_in_the_child_removes_no_queued_call
    assert_equal ["child: 0", "child: 7"], program(<<~RUBY, environment: {"NEVERBLOCK_WAIT_THREADS" => "1"})
      children = Process.spawn("sleep 60", pgroup: true)
      NeverBlock.run do |scope|
        waiting = []
        until waiting.size >= 200 && NeverBlock.stats[:pools][:waits][:queued] > 0 # the last one is queued until a thread is free
          waiting << scope.spawn { Process.wait(-children) }
          nap(0.001)
        end
        reap(fork do
          waiting.last.fiber.raise(IOError) rescue nil
          say NeverBlock.stats[:pools][:waits][:queued]
          NeverBlock.run { Process.spawn("exit 7") && say(Process.wait2.last.exitstatus) }
        end)
        scope.cancel
      end
      Process.kill(:KILL, children) # not before all waits have ended: a wait that the kill ends would fail if another took the status
    RUBY
  end

  # Shows why ext/neverblock/scheduler/lock_waiters.c is needed: plain Ruby with a minimal scheduler.
  slow "it starts Ruby, which writes a crash report"
  def test_ruby_aborts_a_process_that_ends_with_a_fiber_in_the_queue_of_a_locked_mutex
    outcome = run_ruby(<<~RUBY)
      class Parks
        def block(*) = Fiber.yield
        def unblock(*) = nil
        def kernel_sleep(*) = Fiber.yield
        def io_wait(*) = Fiber.yield
        def fiber_interrupt(*) = nil
        def fiber(&block) = Fiber.new(blocking: false, &block).tap(&:resume)
        def close = nil
      end
      mutex = Mutex.new
      Fiber.set_scheduler(Parks.new)
      Fiber.schedule { mutex.lock && Fiber.schedule { mutex.lock } && sleep }
    RUBY
    assert_match(/\[BUG\] unexpected THREAD_KILLED/, outcome.stderr, "Ruby has fixed it: lock_waiters.c and .rb may go")
  end
end
