# frozen_string_literal: true

# engines: every - a signal ends the back end's wait

require "test_helper"
require "support/loops"

# Signals reach a loop in its kernel wait and a busy one; handlers may wake fibers and start processes. In programs of
# their own, whose main thread gets the signals.
class SignalsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  # The program has another process send it a signal, requested inside of the tested code: an earlier signal, on a slow
  # machine, would test other code.
  PRELUDE = <<~'RUBY'
    require "neverblock"
    require "timeout"
    def signal_soon(name, after: 0.1) = Process.detach(spawn("sleep #{after}; kill -#{name} #{Process.pid}"))
    def stay = Queue.new.pop(timeout: 600) # longer than the test waits for its end
    BUSY = -> { Array.new(3) { NB.spawn { loop { NB.pass } } } }
    MASKED = -> { NB.spawn { Thread.handle_interrupt(Interrupt => :never) { sleep } } }
  RUBY

  def program(code, **) = assert_ruby(PRELUDE + code, **).lines.map(&:chomp)

  {
    "an idle loop" => "",
    "a busy loop" => "BUSY.call",
    "a loop that sleeps and wakes" => "3.times { NB.spawn { loop { sleep 0.001 } } }",
    "a loop that waits for input" => "NB.spawn { IO.pipe.first.read }",
    "an idle loop with a masked fiber" => "MASKED.call",
    "a busy loop with a masked fiber" => "MASKED.call; BUSY.call",
    "a loop whose fiber waits for a thread" => "NB.spawn { Thread.new { sleep }.join }"
  }.each do |name, others|
    define_method("test_interrupt_in_#{name.tr(" ", "_")}") do
      assert_equal ["ensure", "Interrupt"], program(<<~RUBY)
        begin
          NeverBlock.run do
            #{others}
            NB.spawn { begin; sleep; ensure; puts "ensure"; end }
            NB.pass
            signal_soon(:INT)
            stay
          end
        rescue Interrupt => error
          puts error.class
        end
      RUBY
    end
  end

  def test_interrupt_in_a_task_that_computes
    assert_equal ["Interrupt"], program(<<~RUBY)
      begin
        NeverBlock.run { NB.spawn { loop {} }; signal_soon(:INT); stay }
      rescue Interrupt
        puts "Interrupt"
      end
    RUBY
  end

  def test_interrupt_in_a_standalone_scheduler
    assert_equal ["ensure", "Interrupt"], program(<<~RUBY)
      begin
        Fiber.set_scheduler(NeverBlock::Scheduler.new)
        Fiber.schedule { begin; sleep; ensure; puts "ensure"; end }
        signal_soon(:INT)
        Fiber.set_scheduler(nil)
      rescue Interrupt => error
        puts error.class
      end
    RUBY
  end

  def test_term_and_exit_from_a_handler
    assert_equal ["ensure", "at_exit", "status 3"], program(<<~'RUBY')
      reader, writer = IO.pipe
      pid = fork do
        $stdout.reopen(writer)
        at_exit { puts "at_exit" }
        trap(:TERM) { exit 3 }
        NeverBlock.run do
          NB.spawn { begin; sleep; ensure; puts "ensure"; end }
          NB.pass
          Process.kill(:TERM, Process.pid)
          stay
        end
      end
      status = Process.wait2(pid).last
      writer.close
      puts reader.read, "status #{status.exitstatus}"
    RUBY
  end

  slow "it starts Ruby"
  def test_a_handler_wakes_a_fiber
    assert_equal ["got USR1", "got USR1 again"], program(<<~RUBY)
      queue, heard = Queue.new, Queue.new
      count = 0
      trap(:USR1) { queue << ((count += 1) == 1 ? "USR1" : "USR1 again") }
      NeverBlock.run do
        NB.spawn { stay }.then { |timer| NB.spawn { 2.times { heard << puts("got \#{queue.pop}") }; timer.cancel } }
        NB.spawn { 2.times { signal_soon(:USR1).join; heard.pop } }
      end
    RUBY
  end

  def test_a_handler_starts_a_process_and_a_thread
    assert_equal ["true thread"], program(<<~RUBY)
      result = Queue.new
      trap(:USR1) do
        pid = spawn("true")
        Thread.new { result << [Process.wait2(pid).last.success?, "thread"] }
      end
      NeverBlock.run do
        signal_soon(:USR1)
        NB.spawn { stay }.then { |timer| puts result.pop.join(" "); timer.cancel }
      end
    RUBY
  end

  def test_a_handler_in_a_busy_loop
    assert_equal ["handled"], program(<<~RUBY)
      handled = false
      trap(:USR1) { handled = true }
      signal_soon(:USR1)
      NeverBlock.run { NB.pass until handled }
      puts "handled"
    RUBY
  end

  slow "it starts Ruby"
  def test_an_ignored_signal_and_ended_children_have_no_effect
    assert_equal ["[5, nil, true]"], program(<<~RUBY)
      trap(:CHLD) { }
      trap(:USR1, "IGNORE")
      NeverBlock.run do
        r, w = IO.pipe
        tasks = [NB.spawn { r.readpartial(1).to_i }, NB.spawn { r.wait_priority(0.5) }, NB.spawn { Queue.new.pop(timeout: 0.4).nil? }]
        10.times { Process.wait(spawn("true")) }
        5.times { Process.kill(:USR1, Process.pid) }
        w << "5"
        p tasks.map(&:value)
      end
    RUBY
  end

  # A second Ctrl-C no longer waits for shielded blocks.
  slow "it starts Ruby"
  def test_a_second_interrupt_forces
    assert_equal ["Interrupt"], program(<<~RUBY)
      begin
        NeverBlock.run do
          NB.spawn { NB.shield { stay } }
          NB.pass
          signal_soon(:INT)
          stay
        ensure
          signal_soon(:INT) # the second, once the first has arrived
        end
      rescue Interrupt
        puts "Interrupt"
      end
    RUBY
  end

  def test_many_signals_in_sequence
    assert_equal ["true true"], program(<<~RUBY)
      got = 0
      trap(:USR1) { got += 1 }
      NeverBlock.run do
        r, w = IO.pipe
        echo = NB.spawn { 500.times.all? { r.readpartial(1) == "x" } }
        500.times { Process.kill(:USR1, Process.pid); w << "x"; sleep 0 }
        puts [got > 0, echo.value].join(" ")
      end
    RUBY
  end
end
