# frozen_string_literal: true

require "test_helper"
require "support/loops"

# Thread#raise and Thread#kill on a loop; Fiber#raise, #kill, #resume and #transfer on fibers that are parked in one.
class InterruptsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  class Bother < StandardError
  end

  # Hides Thread#raise and Thread#kill from the thread, whose kill is an Integer, and not Cancelled from the task.
  MASK = {Bother => :never, Integer => :never}.freeze

  LOOPS = {
    "idle" => -> {},
    "busy" => -> { 3.times { NB.spawn { loop { NB.pass } } } },
    "waiting for input" => -> { NB.spawn { IO.pipe.first.read } },
    "ticking" => -> { NB.spawn { loop { sleep 0.001 } } },
    "masked and idle" => -> { NB.spawn { Thread.handle_interrupt(MASK) { sleep } } },
    "masked and busy" => -> { NB.spawn { Thread.handle_interrupt(MASK) { sleep } } and NB.spawn { loop { NB.pass } } }
  }.freeze

  LOOPS.each do |name, others|
    slow "a loop that is busy for some time" if name.include?("busy")
    define_method("test_thread_raise_on_a_loop_that_is_#{name.tr(" ", "_")}") do
      ensured, thread = start_loop(others)
      thread.raise(Bother, "from outside")
      error = assert_raises(Bother) { assert thread.join(10), "the loop did not end" }
      assert_equal "from outside", error.message
      assert_equal 1, ensured.size
    end

    slow "a loop that is busy for some time" if name.include?("busy")
    define_method("test_thread_kill_on_a_loop_that_is_#{name.tr(" ", "_")}") do
      ensured, thread = start_loop(others)
      thread.kill
      assert thread.join(10), "the loop did not end"
      assert_nil thread.value
      assert_equal 1, ensured.size
    end
  end

  def test_thread_raise_into_a_task_that_computes
    started = Queue.new
    thread = Thread.new { NeverBlock.run { NB.spawn { started << 1 and loop {} } } }
    thread.report_on_exception = false
    started.pop
    thread.raise(Bother)
    assert_raises(Bother) { assert thread.join(10) }
  end

  # R9 of the runtime's review: the loop saw through the mask of its caller.
  def test_the_callers_mask_applies_while_its_loop_runs
    [-> { NB.spawn { loop { NB.pass } } }, -> {}, -> { NB.spawn { Thread.handle_interrupt(Bother => :never) { sleep } } }].each do |others|
      started, gate, events = Queue.new, Queue.new, []
      thread = Thread.new do
        Thread.handle_interrupt(Bother => :never) do
          NeverBlock.run(exit: :cancel) do
            others.call
            started << true
            gate.pop
            sleep 0.002
            events << :committed
          end
        end
        events << :never
      rescue Bother
        events << :bothered
      end
      started.pop
      thread.raise(Bother)
      wait_until("the loop to wait") { gate.num_waiting == 1 }
      gate << true
      assert thread.join(10), "the loop did not end"
      assert_equal %i[committed bothered], events
    end
  end

  # Fuzzer, seed 1424: with any mask around the loop, one of a parked task hid all interrupts, and TERM.
  CALLERS = {
    "another class" => {KeyError => :never},
    "a subclass" => {Class.new(Bother) => :never},
    "a mask inside that lets it through" => [{Bother => :never}, {StandardError => :immediate}],
    "a mask for all code that does not wait" => {Bother => :on_blocking},
    "a mask that was left" => ->(inner) { Thread.handle_interrupt(Bother => :never) {} || inner.call }
  }.freeze

  CALLERS.each do |name, masks|
    define_method("test_a_parked_tasks_mask_hides_nothing_around_#{name.tr(" ", "_")}") do
      NeverBlock.run {} # masks that are set before the first one are not known
      locked, lock = Queue.new, Thread::Mutex.new
      thread = Thread.new do
        around = [masks].flatten.reverse.inject(-> { hold(lock, locked) }) do |inner, mask|
          (Proc === mask) ? -> { mask.call(inner) } : -> { Thread.handle_interrupt(mask) { inner.call } }
        end
        around.call
      end
      thread.report_on_exception = false
      locked.pop
      thread.raise(Bother, "from outside")
      assert_raises(Bother) { assert thread.join(10), "the loop did not end" }
    end
  end

  # What a caller's mask holds off is looked for again after a while; another interrupt may come meanwhile.
  def test_an_interrupt_after_one_deferred_by_the_callers_mask
    NeverBlock.run {}
    locked, lock = Queue.new, Thread::Mutex.new
    thread = Thread.new { Thread.handle_interrupt(KeyError => :never) { hold(lock, locked) } }
    thread.report_on_exception = false
    locked.pop
    thread.raise(KeyError)
    wait_until("the loop to wait") { thread.status == "sleep" }
    thread.raise(Bother)
    assert_raises(Bother, KeyError) { assert thread.join(10), "the loop did not end" }
    refute_predicate lock, :locked?
  end

  def test_a_callers_mask_from_before_the_first_run_applies
    assert_equal "held\nraised\n", assert_ruby(<<~RUBY)
      require "neverblock"
      locked, gate = Queue.new, Queue.new
      thread = Thread.new do
        Thread.handle_interrupt(KeyError => :never) do
          NeverBlock.run do |scope|
            scope.spawn { Thread.handle_interrupt(Exception => :never) { sleep } }
            sleep 0.001
            locked << 1
            gate.pop
            scope.cancel(force: true)
          end
          puts "held"
        end
      rescue KeyError
        puts "raised"
      end
      locked.pop
      thread.raise(KeyError)
      gate << 1
      thread.join
    RUBY
  end

  # A masked task waits for what only the end of another gives it.
  def hold(lock, locked)
    NeverBlock.run do |scope|
      scope.spawn { Thread.handle_interrupt(Exception => :never) { sleep(0.001) && lock.synchronize { nil } } }
      lock.synchronize do
        sleep 0.005
        locked << true
        sleep
      end
    end
  end
  private :hold

  # An interrupt during the start of a task's fiber does not count as a failure of the start.
  slow "many interruptions"
  def test_thread_raise_while_tasks_are_started
    25.times do
      started = Queue.new
      thread = Thread.new { NeverBlock.run { |scope| (started << 1) && loop { scope.spawn {}.join } } }
      thread.report_on_exception = false
      started.pop
      thread.raise(Bother, "from outside")
      assert_raises(Bother) { assert thread.join(10), "the loop did not end" }
    end
  end

  slow "many interruptions"
  def test_thread_kill_while_tasks_are_started
    25.times do
      started = Queue.new
      thread = Thread.new { NeverBlock.run { |scope| (started << 1) && loop { scope.spawn {}.join } } }
      thread.report_on_exception = false
      started.pop
      assert thread.kill.join(10), "the loop did not end"
      assert_nil thread.value
    end
  end

  def test_thread_kill_runs_background_tasks_of_ensures
    started, ended = Queue.new, Queue.new
    thread = Thread.new do
      NeverBlock.run do
        started << true
        sleep
      ensure
        NeverBlock::Scheduler.current.background do
          sleep
        ensure
          ended << true
        end
      end
    end
    started.pop
    assert thread.kill.join(10), "the loop did not end"
    assert ended.pop(timeout: 10), "it was left behind"
  end

  def test_thread_kill_from_inside_a_task
    events = []
    thread = Thread.new do
      NeverBlock.run do
        NB.spawn do
          sleep
        ensure
          events << :other
        end
        NB.pass
        NB.spawn do
          Thread.current.kill
          events << :went_on
        ensure
          events << :killed
        end
        sleep
      end
      events << :after
    end
    assert thread.join(10), "the thread did not end"
    assert_equal %i[killed other], events.sort
  end

  def test_a_run_after_an_interrupt
    thread = Thread.new do
      Thread.current.report_on_exception = false
      begin
        NeverBlock.run { sleep }
      rescue Bother
        nil
      end
      NeverBlock.run { NB.spawn { sleep(0.01) and :second }.value }
    end
    wait_until("the loop") { thread.status == "sleep" }
    thread.raise(Bother)
    assert_equal :second, thread.value
  end

  # ---- fibers that are parked, handled by hand ----
  def test_fiber_raise
    events = []
    standalone do
      fiber = Fiber.schedule do
        sleep
      rescue Bother
        events << :rescued
        sleep 0.001
        events << :went_on
      end
      fiber.raise(Bother)
      events << :raiser
      sleep 0.02
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
      sleep 0.001
    end
  end

  def test_fiber_kill_in_each_wait
    a, b = UNIXSocket.pair
    mutex = Mutex.new
    mutex.lock
    waits = {
      sleep: -> { sleep }, timed: -> { sleep 100 }, read: -> { a.read }, queue: -> { Queue.new.pop }, mutex: -> { mutex.lock },
      select: -> { IO.select([a]) }, thread: -> { Thread.new { sleep }.join }, process: -> { Process.wait(spawn("sleep 1")) },
      timeout: -> { Timeout.timeout(100) { sleep } }, offload: -> { NB.offload { sleep 0.05 } }
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
    [a, b].each(&:close)
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
        Fiber.schedule { turns << sleep(0.001) }
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
      task = NB.spawn { sleep(0.02) and reached = true }
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
      task = NB.spawn { sleep(0.02) and reached = true }
      NB.pass
      watchdog = NB.spawn { sleep 0.1 }
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
        3.times { |i| sleep(0.001) and yielder << i }
      end
      other = NB.spawn { 5.times { sleep 0.001 } }
      assert_equal [0, 1, 2], Array.new(3) { enumerator.next }
      assert_raises(StopIteration) { enumerator.next }
      other.join
    end
  end

  def test_user_fibers_inside_a_task
    in_loop do
      fiber = Fiber.new do
        sleep 0.001
        first = Fiber.yield(:first)
        sleep 0.001
        [first, :second]
      end
      assert_equal :first, fiber.resume
      assert_equal [:got, :second], fiber.resume(:got)
      lazy = (1..Float::INFINITY).lazy.map { |i| sleep(0.0001) and i * 2 }.first(3)
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
            sleep(random.rand(0.002))
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

  private

  # A loop in a thread of its own, with a task whose ensure is counted.
  def start_loop(others)
    ensured, started = Queue.new, Queue.new
    thread = Thread.new do
      NeverBlock.run do
        NB.spawn do
          started << 1
          sleep
        ensure
          ensured << 1
        end
        others.call
        sleep
      end
    end
    thread.report_on_exception = false
    started.pop
    5.times { Thread.pass }
    [ensured, thread]
  end
end
