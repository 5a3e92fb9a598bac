# frozen_string_literal: true

# engines: every - an interrupt ends the back end's wait

require "test_helper"
require "support/loops"

# Thread#raise and Thread#kill on a loop. On fibers: fibers_by_hand_test.rb.
class InterruptsTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops

  class Bother < StandardError
  end

  # Hides Thread#raise, and Thread#kill with its Integer mark, from the thread, and not Cancelled from the task.
  MASK = {Bother => :never, Integer => :never}.freeze

  LOOPS = {
    "idle" => -> {},
    "busy" => -> { 3.times { NB.spawn { loop { NB.pass } } } },
    "waiting for input" => -> { NB.spawn { IO.pipe.first.read } },
    "ticking" => -> { NB.spawn { loop { Queue.new.pop(timeout: 0.001) } } },
    "masked and idle" => -> { NB.spawn { Thread.handle_interrupt(MASK) { sleep } } },
    "masked and busy" => -> { NB.spawn { Thread.handle_interrupt(MASK) { sleep } } and NB.spawn { loop { NB.pass } } }
  }.freeze

  LOOPS.each do |name, others|
    slow "a loop that is busy for some time" if name.include?("busy")
    define_method("test_thread_raise_on_a_loop_that_is_#{name.tr(" ", "_")}") do
      ensured, thread = start_loop(others)
      thread.raise(Bother, "from outside")
      error = assert_raises(Bother) { assert thread.join(NeverBlockTest::LIMIT), "the loop did not end" }
      assert_equal "from outside", error.message
      assert_equal 1, ensured.size
    end

    slow "a loop that is busy for some time" if name.include?("busy")
    define_method("test_thread_kill_on_a_loop_that_is_#{name.tr(" ", "_")}") do
      ensured, thread = start_loop(others)
      thread.kill
      assert thread.join(NeverBlockTest::LIMIT), "the loop did not end"
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
    assert_raises(Bother) { assert thread.join(NeverBlockTest::LIMIT) }
  end

  # R9 of the runtime's review: the loop ignored the mask of its caller.
  def test_the_callers_mask_applies_while_its_loop_runs
    [-> { NB.spawn { loop { NB.pass } } }, -> {}, -> { NB.spawn { Thread.handle_interrupt(Bother => :never) { sleep } } }].each do |others|
      started, gate, events = Queue.new, Queue.new, []
      thread = Thread.new do
        Thread.handle_interrupt(Bother => :never) do
          NeverBlock.run(exit: :cancel) do
            others.call
            started << true
            gate.pop
            nap
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
      assert thread.join(NeverBlockTest::LIMIT), "the loop did not end"
      assert_equal %i[committed bothered], events
    end
  end

  # Fuzzer, seed 1424: with any mask around the loop, the mask of one parked task hid all interrupts, and TERM.
  CALLERS = {
    "another class" => {KeyError => :never},
    "a subclass" => {Class.new(Bother) => :never},
    "a mask inside that lets it through" => [{Bother => :never}, {StandardError => :immediate}],
    "a mask for all code that does not wait" => {Bother => :on_blocking},
    "a mask that was left" => ->(inner) { Thread.handle_interrupt(Bother => :never) {} || inner.call }
  }.freeze

  CALLERS.each do |name, masks|
    define_method("test_a_parked_tasks_mask_hides_nothing_around_#{name.tr(" ", "_")}") do
      NeverBlock.run {} # masks that are set before the first run are not known
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
      assert_raises(Bother) { assert thread.join(NeverBlockTest::LIMIT), "the loop did not end" }
    end
  end

  # An interrupt that the caller's mask defers is checked again after a while; another one may arrive meanwhile.
  def test_an_interrupt_after_one_deferred_by_the_callers_mask
    NeverBlock.run {}
    locked, lock = Queue.new, Thread::Mutex.new
    thread = Thread.new { Thread.handle_interrupt(KeyError => :never) { hold(lock, locked) } }
    thread.report_on_exception = false
    locked.pop
    thread.raise(KeyError)
    wait_until("the loop to wait") { thread.status == "sleep" }
    thread.raise(Bother)
    assert_raises(Bother, KeyError) { assert thread.join(NeverBlockTest::LIMIT), "the loop did not end" }
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
            NB.pass
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

  # A masked task waits for a lock that only the end of another task releases.
  def hold(lock, locked)
    NeverBlock.run do |scope|
      masked = scope.spawn { Thread.handle_interrupt(Exception => :never) { nap && lock.synchronize { nil } } }
      lock.synchronize do
        pass_until("the masked task to wait for the lock") { masked.waits_for.to_s.include?("Mutex") }
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
      assert_raises(Bother) { assert thread.join(NeverBlockTest::LIMIT), "the loop did not end" }
    end
  end

  slow "many interruptions"
  def test_thread_kill_while_tasks_are_started
    25.times do
      started = Queue.new
      thread = Thread.new { NeverBlock.run { |scope| (started << 1) && loop { scope.spawn {}.join } } }
      thread.report_on_exception = false
      started.pop
      assert thread.kill.join(NeverBlockTest::LIMIT), "the loop did not end"
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
    assert thread.kill.join(NeverBlockTest::LIMIT), "the loop did not end"
    assert ended.pop(timeout: NeverBlockTest::LIMIT), "it was left behind"
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
    assert thread.join(NeverBlockTest::LIMIT), "the thread did not end"
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
      NeverBlock.run { NB.spawn { nap and :second }.value }
    end
    wait_until("the loop") { thread.status == "sleep" }
    thread.raise(Bother)
    assert_equal :second, thread.value
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
