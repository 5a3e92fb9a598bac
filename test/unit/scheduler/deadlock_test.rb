# frozen_string_literal: true

# engines: every - the back end waits while the deadlock is looked for

require "test_helper"
require "support/runs"

# Each runs in a process of its own, because other threads, such as the test's, might wake a task.
class DeadlockTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs

  def test_lists_every_task_with_name_site_and_wait
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      log = []
      begin
        NeverBlock.run do |scope|
          queue = Queue.new
          scope.spawn(name: "consumer") do
            queue.pop
          ensure
            log << :ensure
          end
          other = scope.spawn { Mutex.new.tap(&:lock).then { |mutex| scope.spawn(name: "second") { mutex.lock }.join } }
          other.join
        end
      rescue NeverBlock::DeadlockError => error
        puts error.message, error.tasks.map(&:name).inspect, error.is_a?(NeverBlock::Error), log.inspect
      end
      p NeverBlock.run { 1 }
    RUBY
    lines = output.lines(chomp: true)
    assert_match(/\Ano event can wake any of these tasks \(no timer, descriptor, offloaded call or other thread is left\):/, lines[0])
    assert_match(/"main" waiting for #<NeverBlock::Task -:11> spawned at -:4>/, lines[1])
    assert_match(/"consumer" waiting for #<Thread::Queue> spawned at -:6>/, lines[2])
    assert_match(/waiting for task "second" spawned at -:11>/, lines[3])
    assert_match(/"second" waiting for #<Thread::Mutex> spawned at -:11>/, lines[4])
    assert_equal ['["main", "consumer", nil, "second"]', "true", "[:ensure]", "1"], lines[5..]
  end

  # Waits that resemble a deadlock.
  {
    "a timer" => "sleep 0.05",
    "a timeout" => "begin; Timeout.timeout(0.05) { Queue.new.pop }; rescue Timeout::Error; end",
    "a descriptor" => "r, w = IO.pipe; pid = spawn('sleep 0.05', out: w); w.close; r.read; Process.wait(pid)",
    "a process" => "Process.wait(spawn('sleep 0.05'))",
    "a thread" => "q = Queue.new; Thread.new { sleep 0.05; q << 1 }; q.pop",
    "a thread that ends" => "Thread.new { sleep 0.05 }.join",
    "an offloaded call" => "NB.offload { sleep 0.05 }",
    "an offloaded call on a warm pool" => "2.times { NB.offload {} }; NB.offload { sleep 0.05 }",
    "a name" => "Addrinfo.getaddrinfo('localhost', 80)",
    "a task that runs on" => "q = Queue.new; NB.spawn { 100.times { NB.pass }; q << 1 }; q.pop",
    "a locked file" => "f = File.open($0 == '-' ? '/dev/null' : $0); f.flock(File::LOCK_SH); f.close"
  }.each do |name, code|
    define_method("test_#{name.tr(" ", "_")}_is_none") do
      assert_equal "through\n", assert_ruby(<<~RUBY)
        require "neverblock"
        require "socket"
        require "timeout"
        NeverBlock.run { #{code} }
        puts "through"
      RUBY
    end
  end

  # R5 of the runtime's review: each wait is ended from outside, but was taken for a deadlock.
  {
    "a bare sleep" => ['trap("INT") { puts "bye"; exit 5 }; signal(:INT); NeverBlock.run { sleep }', "bye\n", 5],
    "a bare sleep beside a lock" => ["signal(:TERM); begin; NeverBlock.run { |scope| scope.spawn { Queue.new.pop }; sleep }; rescue SignalException => e; puts e; end", "SIGTERM\n", 0],
    "a trap" => ['q = Queue.new; trap("USR1") { q << 1 }; signal(:USR1); p NeverBlock.run { q.pop }', "1\n", 0],
    "a trap in a nested run" => ['q = Queue.new; trap("USR1") { q << 1 }; signal(:USR1); p NeverBlock.run { NeverBlock.run { q.pop } }', "1\n", 0],
    "a timeout outside" => ["begin; Timeout.timeout(0.1) { NeverBlock.run { Queue.new.pop } }; rescue Timeout::Error => e; puts e.class; end", "Timeout::Error\n", 0],
    "our timeout outside" => ["begin; NB.timeout(0.05) { NB.concurrently(1..3) { sleep } }; rescue Timeout::Error => e; puts e.class; end", "NeverBlock::TimeoutError\n", 0]
  }.each do |name, (code, output, status)|
    define_method("test_#{name.tr(" ", "_")}_is_a_way_out") do
      outcome = run_ruby(<<~RUBY)
        require "neverblock"
        require "timeout"
        $stdout.sync = true
        def signal(name) = spawn("sleep 0.1; kill -\#{name} \#{Process.pid}")
        #{code}
      RUBY
      assert_equal [output, "", status], [outcome.stdout, outcome.stderr, outcome.status.exitstatus]
    end
  end

  def test_a_signal_during_the_check_of_its_trap_is_handled
    assert_equal "300\n", assert_ruby(<<~RUBY)
      require "neverblock"
      require "io/wait"
      reader, writer = IO.pipe
      handled = 0
      trap("USR1") { handled += 1 and writer.syswrite("!") }
      sender = fork do
        300.times { Process.kill("USR1", Process.ppid) && reader.wait_readable(5) ? reader.read(1) : break }
      end
      NeverBlock::WaysOut.any? until Process.wait(sender, Process::WNOHANG)
      puts handled
    RUBY
  end

  # R5: a source that ends no wait must not hide a deadlock.
  {
    "a trap that is set back" => 'trap("USR1") { }; trap("USR1", "DEFAULT")',
    "an ignored signal" => 'trap("USR1", "IGNORE")',
    "a timeout that has ended" => "Timeout.timeout(1) { }"
  }.each do |name, code|
    define_method("test_#{name.tr(" ", "_")}_does_not_hide_one") do
      assert_equal "found\n", assert_ruby(<<~RUBY)
        require "neverblock"
        require "timeout"
        #{code}
        begin
          NeverBlock.run { Queue.new.pop }
        rescue NeverBlock::DeadlockError
          puts "found"
        end
      RUBY
    end
  end

  slow "it waits for helper threads to end"
  def test_idle_helper_threads_do_not_hide_a_deadlock
    assert_equal "found\n", assert_ruby(<<~RUBY)
      require "neverblock"
      require "timeout"
      begin
        NeverBlock.run { NB.offload {}; Timeout.timeout(60) {}; Queue.new.pop }
      rescue NeverBlock::DeadlockError
        puts "found"
      end
    RUBY
  end

  slow "the loop asks once a second"
  def test_tasks_that_rescue_the_error_and_wait_again_do_not_hang_the_run
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      begin
        NeverBlock.run { |scope| 3.times { scope.spawn { NB.shield { loop { begin; Queue.new.pop; rescue Exception; end } } } } }
      rescue NeverBlock::DeadlockError => error
        puts error.class
      end
    RUBY
    assert_equal "NeverBlock::DeadlockError\n", output
  end

  def test_shielded_tasks_are_ended_by_force
    assert_equal "[:first, :second]\n", assert_ruby(<<~RUBY)
      require "neverblock"
      log = []
      begin
        NeverBlock.run do |scope|
          scope.spawn { NB.shield { begin; Queue.new.pop; ensure; log << :first; end } }
          NeverBlock.run { |inner| inner.spawn { NB.shield { begin; Queue.new.pop; ensure; log << :second; end } } }
        end
      rescue NeverBlock::DeadlockError
        p log.sort
      end
    RUBY
  end

  def test_a_task_that_waits_for_itself_in_a_circle
    output = assert_ruby(<<~RUBY)
      require "neverblock"
      begin
        NeverBlock.run do |scope|
          first = second = nil
          first = scope.spawn(name: "first") { second.value }
          second = scope.spawn(name: "second") { first.value }
        end
      rescue NeverBlock::DeadlockError => error
        puts error.message[/"first".*task "second"/] && error.message[/"second".*task "first"/] && "circle"
      end
    RUBY
    assert_equal "circle\n", output
  end

  def test_in_a_thread_the_run_keeps_waiting_while_others_live
    queue, value = Thread::Queue.new, nil
    thread = Thread.new { value = NeverBlock.run { queue.pop } }
    wait_until("the loop to sleep") { thread.status == "sleep" }
    queue << :late
    assert thread.join(NeverBlockTest::LIMIT)
    assert_equal :late, value
  end

  def test_the_message_of_the_class_without_tasks
    error = NeverBlock::DeadlockError.new
    assert_empty error.tasks
    assert_match(/no event can wake any/, error.message)
  end
end
