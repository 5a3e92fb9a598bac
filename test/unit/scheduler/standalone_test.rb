# frozen_string_literal: true

# engines: every - the loop opens and closes the back end

require "test_helper"
require "support/loops"
require "support/virtual_time"

# The scheduler in Ruby's usual way: Fiber.set_scheduler, Fiber.schedule, closed at the thread's end.
class StandaloneTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Loops
  include NeverBlockTest::VirtualTime

  def test_the_threads_end_waits_for_scheduled_fibers
    events = []
    on_thread do
      Fiber.set_scheduler(NeverBlock::Scheduler.new)
      Fiber.schedule { sleep 0.02 and events << :late }
      Fiber.schedule { sleep 0.01 and events << :early }
      events << :end_of_block
    end
    assert_equal %i[end_of_block early late], events
  end

  def test_schedule_runs_until_the_first_wait
    events = []
    standalone do
      events << 1
      Fiber.schedule do
        events << 2
        sleep 0
        events << 4
      end
      events << 3
      sleep 0.001
    end
    assert_equal [1, 2, 3, 4], events
  end

  def test_nested_schedules_continue_from_the_inside_out
    events = []
    standalone do
      Fiber.schedule do
        Fiber.schedule do
          Fiber.schedule { events << :deepest and sleep(0.001) }
          events << :deep
        end
        events << :outer
      end
      events << :first
    end
    assert_equal %i[deepest deep outer first], events
  end

  def test_schedule_gives_a_fresh_fiber_that_does_not_block
    standalone do
      fibers = Array.new(5) { Fiber.schedule { Thread.current[:leak] = 1 } }
      assert_equal 5, fibers.uniq.size
      fibers.each { |fiber| refute_predicate fiber, :alive? }
      Fiber.schedule { assert_nil Thread.current[:leak] }
      refute_predicate Fiber.schedule { sleep 0.001 }, :blocking?
    end
  end

  def test_storage_is_copied
    standalone do
      Fiber[:x] = 1
      Fiber.schedule { assert_equal 1, Fiber[:x] and Fiber[:x] = 2 }
      assert_equal 1, Fiber[:x]
      Fiber.schedule(storage: {x: 5}) { assert_equal 5, Fiber[:x] }
      Fiber.schedule(storage: nil) { assert_nil Fiber[:x] }
    end
  end

  def test_an_exception_is_raised_from_the_end_and_ends_the_others
    ensured = false
    error = assert_raises(ArgumentError) do
      on_thread do
        Fiber.set_scheduler(NeverBlock::Scheduler.new)
        Fiber.schedule do
          sleep
        ensure
          ensured = true
        end
        Fiber.schedule { sleep(0.001) and raise ArgumentError, "mine" }
      end
    end
    assert_equal "mine", error.message
    assert ensured
  end

  def test_set_scheduler_nil_closes
    on_thread do
      done = false
      scheduler = NeverBlock::Scheduler.new
      Fiber.set_scheduler(scheduler)
      Fiber.schedule { sleep 0.01 and done = true }
      refute_predicate scheduler, :closed?
      Fiber.set_scheduler(nil)
      assert done
      assert_predicate scheduler, :closed?
      assert_nil Fiber.scheduler
      assert_raises(NeverBlock::ClosedError) { scheduler.io_wait($stdin, IO::READABLE, 0) }
      assert_nil scheduler.close, "closing twice does nothing"
    end
  end

  def test_another_scheduler_replaces_it
    on_thread do
      order = []
      first = NeverBlock::Scheduler.new
      Fiber.set_scheduler(first)
      Fiber.schedule { sleep 0.01 and order << 1 }
      Fiber.set_scheduler(NeverBlock::Scheduler.new)
      assert_predicate first, :closed?
      Fiber.schedule { sleep 0.001 and order << 2 }
      Fiber.set_scheduler(nil)
      assert_equal [1, 2], order
    end
  end

  def test_run_runs_scheduled_fibers_and_can_be_called_again
    on_thread do
      scheduler = NeverBlock::Scheduler.new
      Fiber.set_scheduler(scheduler)
      2.times do
        done = 0
        3.times { Fiber.schedule { sleep 0.001 and done += 1 } }
        assert_equal 0, done
        scheduler.run
        assert_equal 3, done
      end
    end
  end

  def test_killing_the_thread_runs_the_ensures
    ensured = Queue.new
    started = Queue.new
    thread = Thread.new do
      Fiber.set_scheduler(NeverBlock::Scheduler.new)
      3.times do |i|
        Fiber.schedule do
          started << 1
          sleep
        ensure
          sleep 0.001 # it may wait
          ensured << i
        end
      end
    end
    3.times { started.pop }
    wait_until("the loop") { thread.status == "sleep" }
    thread.kill
    assert thread.join(NeverBlockTest::LIMIT), "the thread did not end"
    assert_equal 3, ensured.size
  end

  def test_a_fiber_that_can_never_continue_is_named
    assert_match(/\ANeverBlock::DeadlockError: no event .*waiting for #<Thread::Queue>/m, assert_ruby(<<~RUBY))
      require "neverblock"
      begin
        Fiber.set_scheduler(NeverBlock::Scheduler.new)
        Fiber.schedule { Queue.new.pop }
        Fiber.set_scheduler(nil)
      rescue NeverBlock::Error => error
        puts "\#{error.class}: \#{error.message}"
      end
    RUBY
  end

  def test_a_wait_in_a_plain_fiber_outside_any_schedule
    on_thread do
      Fiber.set_scheduler(NeverBlock::Scheduler.new)
      ticks, gate = 0, Queue.new
      Fiber.schedule { 3.times { sleep(0.001) and ticks += 1 } and gate << :waited }
      value = Fiber.new { gate.pop }.resume
      assert_equal :waited, value
      assert_equal 3, ticks
    end
  end

  def test_fibers_may_outlive_their_resumer
    on_thread do
      Fiber.set_scheduler(NeverBlock::Scheduler.new)
      reached = false
      Fiber.schedule do
        Fiber.new(blocking: false) { sleep(0.01) and reached = true }.resume
      end
      Fiber.set_scheduler(nil)
      assert reached
    end
  end

  def test_schedule_without_a_block_is_refused
    on_thread do
      scheduler = NeverBlock::Scheduler.new
      Fiber.set_scheduler(scheduler)
      assert_raises(ArgumentError) { scheduler.fiber }
    end
  end

  def test_schedule_from_another_thread_is_refused
    on_thread do
      scheduler = NeverBlock::Scheduler.new
      Fiber.set_scheduler(scheduler)
      error = on_thread { assert_raises(ThreadError) { scheduler.fiber { flunk } } }
      assert_match(/another thread/, error.message)
    end
  end

  slow "a thousand loops"
  def test_a_thousand_engines_leak_nothing
    assert_equal "ok\n", assert_ruby(<<~RUBY)
      require "neverblock"
      open_files = -> { Dir.children("/dev/fd").size }
      10.times { NeverBlock::Scheduler.new.close }
      before = open_files.call
      1000.times { NeverBlock::Scheduler.new.close }
      raise "\#{open_files.call - before} descriptors leaked by close" if open_files.call > before + 1
      500.times do
        Fiber.set_scheduler(NeverBlock::Scheduler.new)
        Fiber.schedule { sleep 0 }
        Fiber.set_scheduler(nil)
      end
      raise "\#{open_files.call - before} descriptors leaked by set_scheduler" if open_files.call > before + 1
      100.times { Thread.new { NeverBlock.run { sleep 0 } }.join }
      4.times { GC.start }
      raise "\#{open_files.call - before} descriptors leaked by runs in threads" if open_files.call > before + 10
      puts "ok"
    RUBY
  end

  def test_the_main_thread_of_a_program
    assert_equal "scheduled\nend\nslept\n", assert_ruby(<<~RUBY)
      require "neverblock"
      Fiber.set_scheduler(NeverBlock::Scheduler.new)
      Fiber.schedule { puts "scheduled"; sleep 0.01; puts "slept" }
      puts "end"
    RUBY
  end

  # One after the other: on Ruby 3.4 plain fibers crash in concurrent Ractors, whose pool of stacks they share.
  def test_ractors_each_with_a_loop
    assert_equal "[[0, 1, 2], [0, 1, 2], [0, 1, 2]]\nmain too\n", assert_ruby(<<~RUBY, options: ["-W:no-experimental"])
      require "neverblock"
      values = Array.new(3) do
        ractor = Ractor.new do
          r, w = IO.pipe
          out = []
          NeverBlock.run do |scope|
            scope.spawn { 3.times { out << r.readpartial(1).to_i } }
            scope.spawn { 3.times { |i| sleep 0.005; w << i } }
          end
          out
        end
        ractor.respond_to?(:value) ? ractor.value : ractor.take
      end
      NeverBlock.run { sleep 0.01 }
      p values
      NeverBlock.run { NB.spawn { puts "main too" } }
    RUBY
  end

  def test_ractors_with_standalone_schedulers
    assert_equal "[6, 6, 6, 6]\n", assert_ruby(<<~RUBY, options: ["-W:no-experimental"])
      require "neverblock"
      values = Array.new(4) do
        ractor = Ractor.new do
          queue, sum = Queue.new, 0
          Thread.new do
            Fiber.set_scheduler(NeverBlock::Scheduler.new)
            Fiber.schedule { 3.times { sum += queue.pop } }
            Fiber.schedule { 3.times { |i| sleep 0.002; queue << i + 1 } }
          end.join
          sum
        end
        ractor.respond_to?(:value) ? ractor.value : ractor.take
      end
      p values
    RUBY
  end

  # R11 of the runtime's review: Ruby crashed.
  def test_spawn_takes_a_block_and_nothing_else
    standalone do |scheduler|
      [[nil, nil, nil, nil, true], [nil, :no, nil, nil, true], [nil, -> {}, :no, nil, true], [nil, -> {}, nil, nil, 1]].each do |arguments|
        assert_includes [ArgumentError, TypeError, NoMethodError], assert_raises(StandardError) { scheduler.spawn(*arguments) }.class
      end
    end
  end
end
