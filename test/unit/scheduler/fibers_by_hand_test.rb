# frozen_string_literal: true

require "test_helper"
require "support/loops"
require "support/virtual_time"

# Fibers of a loop that are parked, handled by hand: Fiber#raise, #kill, #resume and #transfer.
class FibersByHandTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  class Bother < StandardError
  end

  def test_fiber_raise
    events = []
    standalone do
      fiber = Fiber.schedule do
        sleep
      rescue Bother
        events << :rescued
        sleep 0.1
        events << :went_on
      end
      fiber.raise(Bother)
      events << :raiser
      sleep 2
    end
    assert_equal %i[rescued raiser went_on], events
  end

  def test_fiber_raise_that_ends_it
    standalone do
      fiber = Fiber.schedule do
        sleep
      rescue Bother
        :ended
      end
      fiber.raise(Bother)
      refute_predicate fiber, :alive?
      sleep 0.1
    end
  end

  def test_fiber_kill_in_each_wait
    a, b = UNIXSocket.pair
    input, output = IO.pipe
    child, gate = spawn("read line; true", in: input), Queue.new
    mutex = Mutex.new
    mutex.lock
    waits = {
      sleep: -> { sleep }, timed: -> { sleep 100 }, read: -> { a.read }, queue: -> { Queue.new.pop }, mutex: -> { mutex.lock },
      select: -> { IO.select([a]) }, thread: -> { Thread.new { sleep }.join }, process: -> { Process.wait(child) },
      timeout: -> { Timeout.timeout(100) { sleep } }, offload: -> { NB.offload { gate.pop } }
    }
    standalone do |scheduler|
      waits.each do |name, wait|
        ensured = []
        fiber = Fiber.schedule do
          wait.call
        ensure
          ensured << 1 # Ruby kills it again at each switch: here nothing can be waited for
        end
        fiber.kill
        pass_until("the end of #{name}") { !fiber.alive? }
        assert_equal [1], ensured, name
      end
      statistics = scheduler.statistics
      assert_equal [0, 0], statistics.values_at(:timers, :interests)
    end
    Thread.list.each { |thread| thread.kill if thread.status == "sleep" && thread.backtrace&.first.to_s.include?(__FILE__) && thread != Thread.main }
    mutex.unlock
    [a, b, input, output, gate].each(&:close)
    Process.wait(child)
  end

  def test_a_task_killed_through_its_fiber
    in_loop do
      task = NB.spawn { sleep }
      NB.pass
      task.fiber.kill
      assert_equal :cancelled, task.state
      assert_kind_of NeverBlock::Cancelled, outcome(task)
    end
  end

  def test_fibers_scheduled_during_fiber_kill_run
    in_loop do
      turns = []
      task = NB.spawn do
        sleep
      ensure
        Fiber.schedule { turns << sleep(0.1) }
      end
      NB.pass
      task.fiber.kill
      pass_until("both turns") { turns.any? }
    end
  end

  # A parked fiber belongs to its loop: resuming it by hand tells it nothing.
  def test_resume_of_a_parked_fiber
    in_loop do
      reached = false
      task = NB.spawn { sleep(2) and reached = true }
      NB.pass
      begin
        task.fiber.resume
      rescue FiberError
        nil
      end
      refute reached, "it went on before its time"
      task.join
      assert reached
    end
  end

  def test_transfer_to_a_parked_fiber
    in_loop do
      reached = false
      task = NB.spawn { sleep(2) and reached = true }
      NB.pass
      watchdog = NB.spawn { sleep 10 }
      begin
        task.fiber.transfer
      rescue FiberError
        nil
      end
      task.join
      assert reached
      watchdog.join
    end
  end

  def test_resume_of_a_fiber_that_has_not_started
    in_loop do
      task = NB.spawn { :value }
      assert_nil task.fiber, "before its first turn"
      assert_equal :value, task.value
      assert_raises(FiberError) { task.fiber.resume }
    end
  end

  def test_an_enumerator_whose_block_waits
    in_loop do
      enumerator = Enumerator.new do |yielder|
        3.times { |i| sleep(0.1) and yielder << i }
      end
      other = NB.spawn { 5.times { sleep 0.1 } }
      assert_equal [0, 1, 2], Array.new(3) { enumerator.next }
      assert_raises(StopIteration) { enumerator.next }
      other.join
    end
  end

  def test_user_fibers_inside_a_task
    in_loop do
      fiber = Fiber.new do
        sleep 0.1
        first = Fiber.yield(:first)
        sleep 0.1
        [first, :second]
      end
      assert_equal :first, fiber.resume
      assert_equal [:got, :second], fiber.resume(:got)
      lazy = (1..Float::INFINITY).lazy.map { |i| sleep(0.01) and i * 2 }.first(3)
      assert_equal [2, 4, 6], lazy
    end
  end

  # Ruby transfers into the Enumerator's fiber then; the raising fiber would be in no queue.
  def test_fiber_raise_while_it_waits_inside_an_enumerator
    in_loop do
      events = []
      task = NB.spawn do
        Enumerator.new { |yielder| sleep and yielder << 1 }.next
      rescue Bother
        events << :rescued
      end
      NB.pass
      task.fiber.raise(Bother)
      events << :raiser
      task.join
      assert_equal %i[raiser rescued], events.sort
    end
  end

  def test_cancelling_a_task_that_waits_inside_its_own_fiber
    in_loop do
      ensured = []
      task = NB.spawn do
        inner = Fiber.new do
          sleep
        ensure
          ensured << :inner
        end
        inner.resume
      ensure
        ensured << :outer
      end
      NB.pass
      task.cancel
      assert_kind_of NeverBlock::Cancelled, outcome(task)
      assert_equal %i[inner outer], ensured
    end
  end

  def test_raises_between_tasks_at_random
    random = Random.new(42)
    in_loop do
      survived = 0
      tasks = Array.new(50) do
        NB.spawn do
          5.times do
            sleep(random.rand(0.2))
          rescue Bother
            survived += 1
          end
        end
      end
      NB.pass
      300.times do
        task = tasks.sample(random:)
        task.fiber.raise(Bother) if task.alive? && task != NB::Task.current && task.waits_for
        NB.pass
      end
      tasks.each(&:join)
      assert_operator survived, :>, 0
    end
  end
end
