# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"
require "minitest/mock"
require "neverblock"
require "timeout"

# Computations that belong to the flight instead of their first callers.
class FlightOwnedTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  Flight = NeverBlock::Flight

  def setup
    @flight = Flight.new(owned: true)
    @gate = Thread::Queue.new
    @runs = 0
  end

  def teardown
    @gate.close
    wait_until("the end of all computations") { @flight.size.zero? }
    assert_equal 0, @flight.waiting
  end

  # -- one computation for all

  def test_concurrent_fibers_share_one_computation
    values = in_run do |scope|
      callers = ask(scope, 10) { +"value" }
      @gate.close
      callers.map(&:value)
    end
    assert_equal ["value"] * 10, values
    assert(values.all? { |value| value.equal?(values.first) })
    assert_equal 1, @runs
  end

  def test_threads_share_one_computation
    threads = Array.new(5) { asking_thread { :value } }
    @gate.close
    assert_equal [:value] * 5, threads.map(&:value)
    assert_equal 1, @runs
  end

  def test_loops_and_threads_share_one_computation
    threads = Array.new(2) { Thread.new { in_run { |scope| ask(scope, 3) { :value }.map(&:value) } } }
    wait_until("the loops to ask") { @flight.waiting == 6 }
    threads << asking_thread { :value }
    @gate.close
    assert_equal [:value] * 7, threads.flat_map(&:value)
    assert_equal 1, @runs
  end

  def test_nothing_is_kept_afterwards
    assert_equal [1, 2, 3], in_run { Array.new(3) { @flight.call(:key) { @runs += 1 } } }
    assert_equal [4, 5], Array.new(2) { @flight.call(:key) { @runs += 1 } }
  end

  def test_nil_and_false_are_values
    assert_equal [[nil, nil], [false, false]], [nil, false].map { |value|
      @gate = Thread::Queue.new
      in_run do |scope|
        callers = ask(scope, 2) { value }
        @gate.close
        callers.map(&:value)
      end
    }
    assert_equal 2, @runs
  end

  # -- callers that leave

  WAYS_TO_LEAVE = {
    "cancelled" => ->(caller) { caller.cancel },
    "killed" => ->(caller) { caller.fiber.kill },
    "raised into" => ->(caller) { caller.fiber.raise(IOError, "the client has left") }
  }.freeze

  WAYS_TO_LEAVE.each do |way, leave|
    define_method(:"test_a_first_caller_that_is_#{way.tr(" ", "_")}_spoils_nobody") do
      values = in_run(on_error: ->(_) {}) do |scope|
        first, *others = ask(scope, 4) { :value }
        leave.call(first)
        pass_until { !first.alive? }
        @gate.close
        others.map(&:value)
      end
      assert_equal [[:value] * 3, 1], [values, @runs]
    end
  end

  def test_a_first_caller_whose_time_is_up_spoils_nobody
    {NeverBlock => NeverBlock::TimeoutError, Timeout => Timeout::Error}.each do |limiter, error|
      setup
      in_run do |scope|
        first = scope.spawn { raised { limiter.timeout(2) { call { :value } } } }
        other = ask(scope, 1) { :value }.first
        assert_instance_of error, first.value
        @gate.close
        assert_equal [:value, 1], [other.value, @runs]
      end
    end
  end

  def test_a_first_thread_that_is_killed_or_interrupted_spoils_nobody
    first, second, third = Array.new(3) { asking_thread { :value } }
    first.kill.join
    second.report_on_exception = false
    second.raise(IOError, "no")
    assert_raises(IOError) { second.value }
    @gate.close
    assert_equal [:value, 1], [third.value, @runs]
  end

  def test_the_computation_outlives_the_scope_of_its_first_caller
    in_run do |scope|
      first = scope.spawn { raised { NeverBlock.run { call { :value } } } }
      other = ask(scope, 1) { flunk }.first
      first.cancel
      assert_instance_of NeverBlock::Cancelled, first.value
      @gate.close
      assert_equal :value, other.value
    end
    assert_equal 1, @runs
  end

  # -- when all have left

  def test_it_is_cancelled_when_the_last_caller_leaves
    reason = nil
    in_run do |scope|
      callers = Array.new(3) { scope.spawn { @flight.call(:key) { cancelled_with { |given| reason = given } } } }
      callers.each { |caller| parked(caller) }
      callers.each do |caller|
        assert_nil reason
        caller.cancel
        caller.join
      end
      pass_until { reason }
    end
    assert_equal "all callers of this computation have left", reason
  end

  def test_it_is_cancelled_in_a_thread_at_a_wait
    reason = nil
    caller = Thread.new { @flight.call(:key) { cancelled_with { |given| reason = given } } }
    wait_until { @runs == 1 }
    caller.kill.join
    wait_until { reason }
    assert_equal "all callers of this computation have left", reason
  end

  def test_a_newcomer_never_gets_the_end_of_a_cancelled_one
    in_run do |scope|
      first = scope.spawn do
        @flight.call(:key) do
          @gate.pop
        ensure
          @gate.pop # it takes its time to end
        end
      end
      parked(first)
      first.cancel
      first.join
      assert_equal 0, @flight.size
      assert_equal :value, @flight.call(:key) { :value }
      @gate.close
    end
  end

  def test_it_finishes_if_the_flight_says_so
    @flight = Flight.new(owned: true, abandoned: :finish)
    finished = []
    in_run do |scope|
      first = ask(scope, 1) { finished << @runs }.first
      first.cancel
      first.join
      assert_equal 1, @flight.size
      newcomer = ask(scope, 1) { flunk }.first
      newcomer.cancel
      newcomer.join
      @gate << true # the run waits for it
    end
    assert_equal [1], finished
    thread = asking_thread { finished << @runs }
    thread.kill.join
    @gate << true
    wait_until { finished == [1, 2] }
  end

  def test_a_run_waits_for_an_abandoned_computation
    @flight = Flight.new(owned: true, abandoned: :finish)
    finished = false
    in_run do |scope|
      caller = scope.spawn { @flight.call(:key) { sleep(1).tap { finished = true } } }
      parked(caller)
      caller.cancel
    end
    assert finished
  end

  # -- errors

  def test_its_error_is_raised_to_all_each_in_a_copy
    errors = in_run do |scope|
      callers = Array.new(3) { parked(scope.spawn { raised { call { failing_computation } } }) }
      @gate.close
      callers.map(&:value)
    end
    assert_equal [["it failed", "the cause"]] * 3, errors.map { |error| [error.message, error.cause.message] }
    assert_equal 3, errors.uniq(&:object_id).size
    assert(errors.all? { |error| error.backtrace.first.include?("failing_computation") })
    assert_equal 1, @runs
  end

  def test_a_caller_s_own_exception_is_never_the_cause
    in_run do
      error = raised do
        raise "of this caller"
      rescue
        @flight.call(:key) { raise IOError, "it failed" }
      end
      assert_equal [IOError, nil], [error.class, error.cause]
    end
  end

  def test_exceptions_of_any_class_are_results
    stubborn = Class.new(StandardError) { def initialize_copy(_) = raise("no copies") }
    [NotImplementedError, NoMemoryError, stubborn].each do |kind|
      [-> { raised { @flight.call(:key) { raise kind } } }, -> { in_run { raised { @flight.call(:key) { raise kind } } } }].each do |way|
        assert_instance_of kind, way.call
      end
    end
  end

  def test_a_block_that_leaves_by_break_or_throw_is_an_error
    [-> { @flight.call(:key) { break } }, -> { catch(:out) { @flight.call(:key) { throw :out } } }].each do |way|
      errors = [raised(&way), in_run { raised(&way) }]
      assert_equal 1, errors.map(&:class).uniq.size, errors
      assert_includes [LocalJumpError, UncaughtThrowError], errors.first.class
    end
  end

  # -- computations that end without a result

  def test_one_that_is_cancelled_is_begun_once_more_by_one_of_its_callers
    in_run do |scope|
      callers = ask(scope, 5) { @runs }
      computation.cancel
      pass_until { @runs == 2 }
      @gate.close
      assert_equal [2] * 5, callers.map(&:value)
    end
  end

  def test_the_second_computation_may_end_before_all_have_noticed_the_end_of_the_first
    in_run do |scope|
      callers = Array.new(5) { parked(scope.spawn { @flight.call(:key) { ((@runs += 1) == 1) ? @gate.pop : @runs } }) }
      computation.cancel
      assert_equal [2] * 5, callers.map(&:value)
    end
  end

  def test_after_the_second_end_all_get_an_error
    in_run do |scope|
      callers = Array.new(5) { parked(scope.spawn { raised { call { flunk } } }) }
      2.times do |time|
        pass_until { @runs == time + 1 }
        computation.cancel("not again")
      end
      errors = callers.map(&:value)
      assert_equal [Flight::EndedError] * 5, errors.map(&:class)
      assert_match(/:key ended 2 times .*not again/, errors.first.message)
      assert_instance_of NeverBlock::Cancelled, errors.first.cause
      assert_kind_of NeverBlock::Error, errors.first
    end
    assert_equal 2, @runs
  end

  def test_one_whose_fiber_or_thread_is_killed
    in_run do |scope|
      callers = ask(scope, 3) { @runs }
      computation.fiber.kill
      pass_until { @runs == 2 }
      @gate.close
      assert_equal [2] * 3, callers.map(&:value)
    end
    setup
    threads = Array.new(3) { asking_thread { @runs } }
    Thread.list.find { |thread| thread.name == "neverblock flight" }.kill
    wait_until { @runs == 2 }
    @gate.close
    assert_equal [2] * 3, threads.map(&:value)
  end

  def test_the_end_of_its_loop
    ending = Thread::Queue.new
    loop_thread = Thread.new do
      raised { NeverBlock.run { |scope| ask(scope, 2) { flunk } && ending.pop && raise("the loop ends") } }
    end
    wait_until { @flight.waiting == 2 }
    caller = asking_thread { @runs }
    ending << true
    assert_equal "the loop ends", loop_thread.value.message
    wait_until { @runs == 2 }
    @gate.close
    assert_equal 2, caller.value
  end

  def test_the_cancellation_of_something_else_is_none_of_the_callers
    in_run do |scope|
      other = scope.spawn { sleep }
      parked(other)
      other.cancel
      error = raised { @flight.call(:key) { other.value } }
      assert_instance_of Flight::EndedError, error
    end
  end

  slow "it starts Ruby three times"
  def test_exit_ends_the_program
    [
      "NeverBlock.run { flight.call(:key) { exit 3 } }",
      "flight.call(:key) { exit 3 }",
      "begun, gate = Queue.new, Queue.new; Thread.new { flight.call(:key) { begun.push(1) && gate.pop && exit(3) } }.tap { begun.pop }.kill.join; gate << 1"
    ].each do |call|
      outcome = run_ruby("require 'neverblock'; flight = NeverBlock::Flight.new(owned: true, abandoned: :finish); #{call}; sleep")
      assert_equal [3, ""], [outcome.status.exitstatus, outcome.stderr]
    end
  end

  def test_a_thread_that_can_t_be_started
    Thread.stub(:new, ->(*) { raise ThreadError, "no more threads" }) do
      assert_equal "no more threads", assert_raises(ThreadError) { @flight.call(:key) { flunk } }.message
    end
    assert_equal :value, @flight.call(:key) { :value }
  end

  def test_a_first_caller_that_is_interrupted_before_it_has_started_the_task
    in_run do |scope|
      starting = Thread::Queue.new
      scheduler = NeverBlock::Scheduler.current
      scheduler.define_singleton_method(:background) { |**| starting.pop.then { raise IOError, "interrupted" } }
      first = parked(scope.spawn { raised { call { flunk } } })
      others = ask(scope, 3) { :value }
      scheduler.singleton_class.remove_method(:background)
      starting << true
      assert_instance_of IOError, first.value
      @gate.close
      assert_equal [[:value] * 3, 1], [others.map(&:value), @runs]
    end
  end

  # -- bounds

  def test_the_number_of_callers_is_bounded
    @flight = Flight.new(owned: true, max_waiting: 3)
    in_run do |scope|
      callers = ask(scope, 3) { :value }
      error = assert_raises(NeverBlock::OverloadError) { @flight.call(:key) { flunk } }
      assert_match(/\A3 callers wait for :key already.*max_waiting:/, error.message)
      assert_equal :other, @flight.call(:other) { :other }
      callers.shift.tap(&:cancel).join
      callers += ask(scope, 1) { flunk }
      @gate.close
      assert_equal [:value] * 3, callers.map(&:value)
    end
  end

  def test_many_callers
    in_run do |scope|
      callers = ask(scope, 300) { :value }
      @gate.close
      assert_equal({value: 300}, callers.map(&:value).tally)
    end
    assert_equal 1, @runs
  end

  # -- waits for itself

  def test_a_key_asked_for_inside_its_own_computation_is_an_error
    inside = {
      "directly" => -> { @flight.call(:key) { flunk } },
      "in an Enumerator" => -> { Enumerator.new { |yielder| yielder << @flight.call(:key) { flunk } }.next },
      "by way of another key" => -> { @flight.call(:other) { @flight.call(:key) { flunk } } }
    }
    inside.each_value do |way|
      [-> { raised { @flight.call(:key) { way.call } } }, -> { in_run { raised { @flight.call(:key) { way.call } } } }].each do |place|
        error = place.call
        assert_instance_of Flight::CircularError, error
        assert_match(/computing :key would wait for itself/, error.message)
      end
    end
    assert_equal :fine, @flight.call(:key) { :fine }
  end

  def test_a_call_that_blocks_the_loop_that_computes_is_an_error
    in_run do |scope|
      caller = ask(scope, 1) { :value }.first
      error = assert_raises(Flight::CircularError) { NeverBlock.neverblock(false) { @flight.call(:key) { flunk } } }
      assert_match(/:key would never end: the call blocks the thread/, error.message)
      @gate.close
      assert_equal :value, caller.value
    end
  end

  def test_a_first_call_that_blocks_its_loop_computes_in_a_thread
    in_run do
      thread = NeverBlock.neverblock(false) { @flight.call(:key) { Thread.current } }
      refute_same Thread.current, thread
    end
  end

  # -- state

  def test_it_sees_no_state_of_its_first_caller
    look = proc { [Fiber[:user], Thread.current[:user], Thread.current.pending_interrupt?] }
    ask_for_state = proc do
      Fiber[:user] = Thread.current[:user] = "ann"
      @flight.call(:key, &look).tap { assert_equal "ann", Fiber[:user] }
    end
    assert_equal [nil, nil, false], Thread.new(&ask_for_state).value
    assert_equal [nil, nil, false], in_run(&ask_for_state)
  end

  def test_it_leaves_no_state_to_its_callers
    in_run do
      @flight.call(:key) { Fiber[:user] = Thread.current[:user] = "bob" }
      assert_equal [nil, nil], [Fiber[:user], Thread.current[:user]]
    end
  end

  def test_masks_of_its_first_caller_hold_nothing_off
    reason = nil
    caller = Thread.new do
      Thread.handle_interrupt(NeverBlock::Cancelled => :never, Object => :never) do
        Timeout.timeout(0.05) { @flight.call(:key) { cancelled_with { |given| reason = given } } } # comes when the mask ends
      end
    end
    wait_until { @runs == 1 }
    Thread.list.find { |thread| thread.name == "neverblock flight" }.raise(NeverBlock::Cancelled.new(reason: "by hand"))
    wait_until { reason }
    assert_equal "by hand", reason
    wait_until { @runs == 2 }
    Thread.list.find { |thread| thread.name == "neverblock flight" }.kill
    caller.report_on_exception = false
    refute_nil raised { caller.value } # EndedError; on a slow machine the timeout comes first
  end

  def test_it_is_listed_among_the_tasks
    in_run do |scope|
      caller = ask(scope, 1) { :value }.first
      assert_equal "flight", computation.name
      assert_match(/flight_owned_test\.rb:\d+\z/, computation.spawned_at)
      assert_match(/Flight/, caller.waits_for)
      @gate.close
    end
  end

  # -- later callers

  def test_after_forget_callers_begin_another_computation
    [@flight, Flight.new].each do |flight|
      @flight = flight
      @gate = Thread::Queue.new
      in_run do |scope|
        old = ask(scope, 2) { :old }
        assert_equal [true, false, 0], [@flight.forget(:key), @flight.forget(:key), @flight.size]
        assert_equal :new, @flight.call(:key) { :new }
        @gate.close
        assert_equal [:old, :old], old.map(&:value)
      end
    end
    @flight = Flight.new(owned: true)
  end

  def test_a_forgotten_computation_is_cancelled_when_its_callers_leave
    reason = nil
    in_run do |scope|
      caller = parked(scope.spawn { @flight.call(:key) { cancelled_with { |given| reason = given } } })
      @flight.forget(:key)
      newcomer = parked(scope.spawn { @flight.call(:key) { @gate.pop || :new } })
      caller.cancel
      pass_until { reason }
      @gate.close
      assert_equal :new, newcomer.value
    end
  end

  # -- processes, locks and mistakes

  def test_a_forked_child_does_not_wait_for_its_parent_s_computation
    thread = asking_thread { :parent }
    reader, writer = IO.pipe
    pid = fork do
      writer.write([@flight.call(:key) { :child }, @flight.size].inspect)
      writer.close
      exit!(0)
    end
    writer.close
    assert reader.wait_readable(10), "the child waits for a thread it does not have"
    assert_equal "[:child, 0]", reader.read
    Process.wait(pid)
    @gate.close
    assert_equal :parent, thread.value
  ensure
    reader.close
  end

  def test_a_cancellation_while_another_thread_has_the_lock
    [@flight, Flight.new].product([false, true]) do |flight, force|
      @flight = flight
      @gate = Thread::Queue.new
      @runs = 0
      in_run do |scope|
        first, other = ask(scope, 2) { :value }
        with_the_lock_held do
          waits = ->(task) { task.waits_for.to_s.include?("Mutex") }
          pass_until { NeverBlock.tasks.any?(&waits) } # the first caller, or the computation
          NeverBlock.tasks.each { |task| task.cancel(force:) if waits.call(task) }
          3.times { NeverBlock.pass } # the cancellation would come now
        end
        assert_equal :value, other.value
        outcome(first)
      end
      assert_equal :next, flight.call(:key) { :next }
      assert_equal 0, flight.size
    end
    @flight = Flight.new(owned: true)
  end

  def test_invalid_arguments_are_named
    {
      {owned: true, max_waiting: 0} => /max_waiting: 0/,
      {owned: true, abandoned: :stop} => /abandoned: .*:stop/,
      {owned: true, share: KeyError} => /share: .*KeyError/,
      {max_waiting: 5} => /max_waiting: 5 needs owned: true/,
      {abandoned: :finish} => /abandoned: :finish needs owned: true/
    }.each do |options, message|
      assert_match message, assert_raises(ArgumentError) { Flight.new(**options) }.message
    end
    assert_raises(ArgumentError) { @flight.call(:key) }
  end

  private

  # Tasks that ask for the same key, once they wait.
  def ask(scope, count, &block)
    Array.new(count) { scope.spawn { call(&block) } }.each { |task| parked(task) }
  end

  # A thread that asks, once it waits and the computation has begun.
  def asking_thread(&block)
    before = @flight.waiting
    thread = Thread.new { call(&block) }
    thread.report_on_exception = false
    wait_until("the thread to wait") { @flight.waiting > before && @runs >= 1 && thread.stop? }
    thread
  end

  # A computation that lasts until the gate opens.
  def call(&block)
    @flight.call(:key) do
      @runs += 1
      @gate.pop
      block.call
    end
  end

  # Opens the gate, and has the lock of the flight.
  def with_the_lock_held
    held, free = Thread::Queue.new, Thread::Queue.new
    thread = Thread.new do
      @flight.forget_if do
        @gate.close
        held << true
        free.pop
        false
      end
    end
    held.pop
    yield
    free << true
    thread.join
  end

  # The task of the computation.
  def computation = NeverBlock.tasks.find { |task| task.name == "flight" && task.alive? }

  def failing_computation
    raise "the cause"
  rescue
    raise IOError, "it failed"
  end

  # A computation that waits for its cancellation; its ensure block isn't disturbed.
  def cancelled_with
    @runs += 1
    Thread::Queue.new.pop(timeout: NeverBlockTest::LIMIT)
  rescue NeverBlock::Cancelled => error
    raise
  ensure
    Thread.new {}.join # a wait
    yield error&.reason
  end
end
