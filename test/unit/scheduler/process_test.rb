# frozen_string_literal: true

# engines: every - the end of a child ends the back end's wait

require "test_helper"
require "support/loops"
require "tmpdir"

# Waiting for child processes.
class ProcessTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  slow "many processes"
  def test_other_tasks_run_meanwhile
    Dir.mktmpdir do |folder|
      ticks = 0
      soon = -> { "until [ -e #{folder}/#{ticks + 20} ]; do sleep 0.01; done" } # a child that waits for 20 ticks
      in_loop do
        ticker = NB.spawn { loop { nap(0.002) and File.write("#{folder}/#{ticks += 1}", "") } }
        assert system(soon.call)
        assert_equal "out\n", `#{soon.call}; echo out`
        assert_equal "piped", IO.popen("#{soon.call}; printf piped", &:read)
        ticker.cancel
      end
    end
  end

  def test_status
    in_loop do
      Process.wait(spawn("exit 3"))
      assert_equal 3, $?.exitstatus
      pid, status = Process.wait2(spawn("kill -9 $$"))
      assert_equal [pid, 9], [status.pid, status.termsig]
      refute system("exit 1")
      assert_nil system("/nonexistent/program")
      assert_raises(Errno::ECHILD) { Process.wait(Process.pid) }
    end
  end

  def test_ended_before_it_is_waited_for
    in_loop do
      pid = spawn("true")
      pass_until("its end") { ended?(pid) }
      assert_equal pid, Process.wait(pid)
      assert_raises(Errno::ECHILD) { Process.wait(pid) }
    end
  end

  def test_without_hanging
    in_loop do
      reader, writer = IO.pipe
      pid = spawn("read line; true", in: reader)
      assert_nil Process.wait(pid, Process::WNOHANG)
      writer.puts
      assert_equal pid, Process.wait(pid)
      [reader, writer].each(&:close)
    end
  end

  def test_any_child_and_groups
    assert_equal "[true, true]\n", assert_ruby(<<~RUBY) # any child: in a program without others
      require "neverblock"
      p(NeverBlock.run do
        any = spawn("sleep 0.05")
        [Process.wait == any, spawn("sleep 0.05", pgroup: true).then { |pid| Process.wait(-pid) == pid }]
      end)
    RUBY
  end

  slow "many processes"
  def test_many
    in_loop do
      pids = Array.new(20) { |i| spawn("exit #{i}") }
      assert_equal [*0...20], NB.concurrently(pids) { |pid| Process.wait2(pid).last.exitstatus }
    end
  end

  def test_two_wait_for_one
    in_loop do
      pid = spawn("sleep 0.05")
      outcomes = Array.new(2) { NB.spawn { Process.wait(pid) } }.map { |task| outcome(task) }
      assert_includes outcomes, pid
      assert_includes outcomes.map(&:class), Errno::ECHILD
    end
  end

  def test_a_cancelled_wait_leaves_the_child_to_others
    in_loop do
      reader, writer = IO.pipe
      pid = spawn("read line; true", in: reader)
      before = Dir.children("/dev/fd").size
      waiter = NB.spawn { Process.wait(pid) }
      NB.pass
      waiter.cancel
      assert_kind_of NeverBlock::Cancelled, outcome(waiter)
      pass_until("its descriptor to be closed") { Dir.children("/dev/fd").size <= before }
      writer.puts
      assert_equal pid, Process.wait(pid)
      [reader, writer].each(&:close)
    end
  end

  # R7 of the runtime's review: the native thread, which went on, took the status.
  def test_an_interrupted_wait_for_any_child_takes_no_status
    assert_equal "[7, 8]\n", assert_ruby(<<~RUBY) # any child: in a program without others
      require "neverblock"
      require "timeout"
      statuses = NeverBlock.run do |scope|
        reader, writer = IO.pipe
        pid = spawn("read line; exit 7", in: reader)
        begin
          Timeout.timeout(0.05) { Process.wait }
        rescue Timeout::Error
          waiter = scope.spawn { Process.wait }
          NB.pass until waiter.state == :running && waiter.waits_for
          waiter.cancel
        end
        waiter.join
        writer.puts
        NB.pass until File.read("/proc/\#{pid}/stat").include?(") Z ") || !RUBY_PLATFORM.include?("linux")
        [Process.wait2(pid).last.exitstatus, (spawn("exit 8") && Process.wait2.last.exitstatus)]
      end
      p statuses
    RUBY
  end

  slow "a program of its own, and children"
  def test_a_trap_that_reaps_leaves_the_status_to_system
    results = assert_ruby(<<~RUBY) # a trap: in a program of its own
      require "neverblock"
      trap(:CHLD) do
        nil while Process.wait(-1, Process::WNOHANG)
      rescue Errno::ECHILD
      end
      result = -> do
        system("sleep 0.02; exit 7") # real: the child ends while the loop waits
      rescue Errno::ECHILD => error  # the loop's thread didn't run, so the trap reaped before the wait
        error.class
      end
      results = []
      NeverBlock.run { results << result.call until results.include?(false) || results.size == 100 }
      p results.uniq
    RUBY
    refute_includes results, "true"
    assert_includes results, "false" unless ENV["NEVERBLOCK_TEST_LIBRARY"] # the portable build reaps in the fiber
  end

  # Kernel#system alone takes a missing status for success.
  def test_system_raises_when_another_wait_has_taken_the_status
    in_loop do
      Fiber.scheduler.singleton_class.class_eval do
        def process_wait(pid, flags) = process_wait_blocking(pid, 0) && super
      end
      error = assert_raises(Errno::ECHILD) { system("exit 7") }
      assert_match(/\ANo child processes - system: another Process\.wait, .* has taken the status of process \d+\z/, error.message)
      assert_equal(-1, Process::Status.wait(Process.pid).pid)
      `true`
      assert_nil $?
    end
  end

  # The loop reaps the child at its end, so no later wait gets the status.
  def test_an_exception_that_meets_a_reaped_child_loses_no_status
    in_loop do
      (gate, opener), (held, holder) = IO.pipe, IO.pipe
      pid = spawn("read line; exit 7", in: gate, out: holder)
      holder.close
      waiter = NB.spawn do
        status = Process.wait2(pid).last
        sleep
      rescue IOError
        (status || Process.wait2(pid).last).exitstatus
      end
      striker = NB.spawn { held.read(1) || waiter.fiber.raise(IOError) }
      pass_until("both to wait") { waiter.waits_for && striker.waits_for }
      opener.puts
      Thread.pass until ended?(pid) # the loop stands still: it will see both ends at once
      assert_equal 7, outcome(waiter)
      [gate, opener, held].each(&:close)
    end
  end

  def test_detached_ones
    in_loop { assert_predicate Process.detach(spawn("sleep 0.05")).value, :success? }
  end

  def test_stopped_children
    in_loop do
      pid = spawn("kill -STOP $$; exit 7")
      _, status = Process.wait2(pid, Process::WUNTRACED)
      assert_predicate status, :stopped?
      Process.kill(:CONT, pid)
      assert_equal 7, Process.wait2(pid).last.exitstatus
    end
  end
end
