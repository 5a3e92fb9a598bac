# frozen_string_literal: true

# engines: every - the back end decides how many events a turn has

require "test_helper"
require "support/loops"
require "support/virtual_time"

# Under any load, ready descriptors, due timers and other threads' wake-ups get their turn within N switches.
class FairnessTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  SWITCHES = 64
  CROWD = 300
  # A turn of the loop, and the way through its two queues, which alternate.
  BOUND = SWITCHES * 3

  def test_ready_input_beside_many_runnable_fibers
    in_loop do |scope|
      scheduler = Fiber.scheduler
      r, w = IO.pipe
      crowd(scope)
      waits = Array.new(20) do
        reader = NB.spawn { r.readpartial(1) and scheduler.statistics[:switches] }
        NB.pass until reader.waits_for && reader.state == :running
        w.write("x")
        written = scheduler.statistics[:switches]
        reader.value - written
      end
      assert_operator waits.max, :<=, BOUND, "switches until the reader ran: #{waits}"
      [r, w].each(&:close)
      scope.cancel
    end
  end

  def test_due_timers_beside_many_runnable_fibers
    in_loop do |scope|
      scheduler = Fiber.scheduler
      crowd(scope)
      lateness = Array.new(20) do
        sleeper = NB.spawn do
          sleep 2
          scheduler.statistics[:switches]
        end
        NB.pass until sleeper.waits_for && sleeper.state == :running
        hold(2)
        due = scheduler.statistics[:switches]
        sleeper.value - due
      end
      assert_operator lateness.max, :<=, BOUND + CROWD, "switches from its deadline until the sleeper ran: #{lateness}"
      scope.cancel
    end
  end

  slow "a crowd, for some time"
  def test_a_flood_of_input_starves_neither_timers_nor_runnable_fibers
    in_loop do |scope|
      pairs = Array.new(20) { UNIXSocket.pair }
      pairs.each do |a, b|
        scope.spawn { loop { a.write("x" * 100) } }
        scope.spawn { loop { b.readpartial(4096) } }
        scope.spawn { loop { b.write("y" * 100) } }
        scope.spawn { loop { a.readpartial(4096) } }
      end
      ticks = passes = 0
      scope.spawn { loop { sleep(1) and ticks += 1 } }
      scope.spawn { loop { NB.pass or hold(1) and passes += 1 } }
      pass_until("the timer's ticks") { ticks >= 3 }
      pass_until("the turns of the one that passes") { passes >= 3 }
      scope.cancel
    end
  end

  slow "a crowd, for some time"
  def test_wake_ups_by_threads_beside_many_runnable_fibers
    in_loop do |scope|
      crowd(scope)
      queue, answers = Queue.new, Queue.new
      popper = scope.spawn { 5.times { answers << queue.pop } }
      thread = Thread.new { 5.times { |i| queue << i and answers.pop == i or raise "out of order" } }
      popper.join
      assert thread.join(NeverBlockTest::LIMIT)
      scope.cancel
    end
  end

  # Far fewer switches than a turn may have, but a long computation between them.
  def test_the_kernel_is_polled_between_computing_fibers
    in_loop do
      scheduler = Fiber.scheduler
      looks = []
      r, w = IO.pipe
      reader = NB.spawn { r.readpartial(1) } # makes the loop poll
      tasks = Array.new(50) { NB.spawn { 3.times { sleep(10) && hold(0.006) && looks << scheduler.statistics[:polls] } } }
      tasks.each(&:join)
      counts = looks.chunk_while { |before, after| before == after }.map(&:size)
      assert_operator counts.max, :<=, 20, "how many computed between two looks: #{counts}"
      w.write("x")
      reader.join
      [r, w].each(&:close)
    end
  end

  def test_yielding_fibers_take_turns
    in_loop do |scope|
      counts = Array.new(200, 0)
      tasks = counts.each_index.map { |i| scope.spawn { loop { NB.pass or counts[i] += 1 } } }
      100.times { NB.pass }
      assert_operator counts.max - counts.min, :<=, 2, "rounds: #{counts.minmax}"
      assert_operator counts.min, :>=, 90
      tasks.each(&:cancel)
    end
  end

  def test_a_passing_task_lets_interrupts_through
    in_loop do
      assert_raises(Timeout::Error) { Timeout.timeout(5) { loop { NB.pass or hold(0.001) } } }
      assert_in_delta 5, clock.elapsed, 0.2
    end
  end

  private

  def crowd(scope)
    CROWD.times { scope.spawn { loop { NB.pass } } }
    NB.pass
  end
end
