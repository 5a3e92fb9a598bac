# frozen_string_literal: true

require "test_helper"
require "support/virtual_time"
require "neverblock"
require "timeout"

class FlightTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::VirtualTime

  def setup
    @flight = NeverBlock::Flight.new
    @gate = Thread::Queue.new
    @runs = 0
    @asked = 0
  end

  # -- one computation for all

  def test_concurrent_fibers_share_one_computation
    answers = NeverBlock.run do
      tasks = ask(10) { compute { +"answer" } }
      open_gate(after: 10)
      tasks.map(&:value)
    end
    assert_equal 1, @runs
    assert_equal ["answer"] * 10, answers
    assert(answers.all? { |answer| answer.equal?(answers.first) })
  end

  def test_concurrent_threads_share_one_computation
    threads = Array.new(5) { asking_thread { compute { :answer } } }
    @gate << true
    assert_equal [:answer] * 5, threads.map(&:value)
    assert_equal 1, @runs
  end

  def test_a_loop_and_a_thread_share_one_computation
    thread = asking_thread { compute { :from_the_thread } }
    answer = NeverBlock.run do
      task = ask(1) { :from_the_loop }.first
      open_gate(after: 1)
      task.value
    end
    assert_equal :from_the_thread, answer
    assert_equal :from_the_thread, thread.value
  end

  def test_nothing_is_kept_afterwards
    assert_equal [1, 2, 3], Array.new(3) { @flight.call(:key) { @runs += 1 } }
    assert_equal 0, @flight.size
  end

  def test_the_callers_that_wait_are_counted
    NeverBlock.run do
      tasks = ask(3) { compute { :answer } }
      wait_until { @flight.waiting == 2 } # for the third
      open_gate(after: 3)
      tasks.each(&:value)
      assert_equal 0, @flight.waiting
    end
  end

  def test_keys_do_not_wait_for_each_other
    NeverBlock.run do
      slow = ask(1) { compute { :slow } }.first
      wait_until { @asked == 1 }
      assert_equal :quick, @flight.call(:other) { :quick }
      assert_equal 1, @flight.size
      @gate << true
      assert_equal :slow, slow.value
    end
  end

  def test_nil_and_false_are_results
    [nil, false].each do |answer|
      setup
      answers = NeverBlock.run do
        tasks = ask(3) { compute { answer } }
        open_gate(after: 3)
        tasks.map(&:value)
      end
      assert_equal [answer] * 3, answers
      assert_equal 1, @runs
    end
  end

  # -- the end of the leader

  def test_a_cancelled_leader_is_replaced
    answers = NeverBlock.run do
      leader, *others = ask(4) { compute { @runs } }
      wait_until { @asked == 4 }
      leader.cancel
      leader.join
      open_gate(after: 4)
      others.map(&:value)
    end
    assert_equal [2, 2, 2], answers
    assert_equal 0, @flight.size
  end

  def test_a_killed_leading_thread_is_replaced
    leader, *others = Array.new(3) { asking_thread { compute { @runs } } }
    leader.kill.join
    @gate << true
    assert_equal [2, 2], others.map(&:value)
  end

  def test_a_killed_leading_fiber_is_replaced
    leader = Fiber.new { @flight.call(:key) { Fiber.yield } }
    leader.resume
    follower = asking_thread { :taken_over }
    leader.kill
    assert_equal :taken_over, follower.value
  end

  def test_a_timed_out_leader_is_replaced
    NeverBlock.run do
      leader = NeverBlock.spawn { outcome { Timeout.timeout(5) { @flight.call(:key) { compute { :late } } } } }
      wait_until { @runs == 1 }
      follower = ask(1) { :taken_over }.first
      assert_kind_of Timeout::Error, leader.value
      assert_equal :taken_over, follower.value
    end
  end

  def test_a_leader_that_leaves_its_block_is_replaced
    NeverBlock.run do
      leader = NeverBlock.spawn do
        catch(:done) { @flight.call(:key) { compute { throw :done, :thrown } } }
      end
      follower = ask(1) { :taken_over }.first
      open_gate(after: 1)
      assert_equal :thrown, leader.value
      assert_equal :taken_over, follower.value
    end
  end

  def test_a_leader_that_raises_does_not_fail_its_followers
    answers = NeverBlock.run do
      tasks = ask(5) { compute { (@runs == 1) ? raise("the first fails") : :answer } }
      open_gate(after: 5)
      tasks.map(&:value)
    end
    assert_equal "the first fails", answers.first.message
    assert_equal [:answer] * 4, answers.drop(1)
    assert_equal 2, @runs
  end

  def test_a_lasting_failure_costs_two_computations_for_any_number_of_callers
    answers = NeverBlock.run do
      tasks = ask(20) { compute { raise "run #{@runs}" } }
      open_gate(after: 20)
      tasks.map(&:value)
    end
    assert_equal 2, @runs
    assert_equal ["run 1"] + ["run 2"] * 19, answers.map(&:message)
  end

  def test_shared_errors_count_as_results
    @flight = NeverBlock::Flight.new(share: [KeyError, ArgumentError])
    answers = NeverBlock.run do
      tasks = ask(5) { compute { raise ArgumentError, "no such thing" } }
      open_gate(after: 5)
      tasks.map(&:value)
    end
    assert_equal 1, @runs
    assert_equal ["no such thing"] * 5, answers.map(&:message)
  end

  def test_a_follower_that_leaves_does_not_affect_the_others
    NeverBlock.run do
      leader, follower, *others = ask(4) { compute { :answer } }
      wait_until { @asked == 4 }
      follower.cancel
      follower.join
      open_gate(after: 4)
      assert_equal [:answer] * 3, [leader, *others].map(&:value)
    end
    assert_equal 1, @runs
  end

  # -- a flight that waits for itself

  def test_a_key_asked_for_inside_its_own_computation_is_an_error
    inside = {
      "directly" => -> { @flight.call(:key) { flunk } },
      "in an Enumerator" => -> { Enumerator.new { |yielder| yielder << @flight.call(:key) { flunk } }.next },
      "by way of another key" => -> { @flight.call(:other) { @flight.call(:key) { flunk } } }
    }
    places = {"outside of loops" => ->(&block) { block.call }, "in a task" => ->(&block) { NeverBlock.run(&block) }}
    inside.to_a.product(places.to_a).each do |(way, ask), (place, enter)|
      error = enter.call { outcome { @flight.call(:key) { ask.call } } }
      assert_instance_of NeverBlock::Flight::CircularError, error, "#{way}, #{place}"
      assert_kind_of NeverBlock::Error, error
      assert_match(/computing :key would wait for itself/, error.message)
    end
    assert_equal :fine, @flight.call(:key) { :fine }
  end

  def test_a_call_that_blocks_the_loop_of_its_leader_is_an_error
    NeverBlock.run do
      leader = ask(1) { compute { :value } }.first
      wait_until { @runs == 1 }
      error = outcome { NeverBlock.neverblock(false) { @flight.call(:key) { flunk } } }
      assert_instance_of NeverBlock::Flight::CircularError, error
      assert_match(/:key would never end: the call blocks the thread/, error.message)
      @gate.close
      assert_equal :value, leader.value
    end
  end

  def test_two_computations_that_wait_for_each_other_are_an_error
    answers = NeverBlock.run do
      [%i[a b], %i[b a]].map { |mine, other|
        NeverBlock.spawn do
          outcome do
            @flight.call(mine) do
              wait_until { @flight.size == 2 }
              @flight.call(other) { mine }
            end
          end
        end
      }.map(&:value)
    end
    refused, = answers.partition { |answer| answer.is_a?(NeverBlock::Flight::CircularError) }
    assert_equal 1, refused.size, answers.inspect
    assert_equal 0, @flight.size
  end

  # -- processes and mistakes

  def test_a_forked_child_does_not_wait_for_its_parents_leader
    threads = Array.new(2) { asking_thread { compute { :parent } } }
    wait_until("a follower") { @flight.waiting == 1 }
    reader, writer = IO.pipe
    pid = fork do
      writer.write([@flight.size, @flight.waiting, @flight.call(:key) { :child }].inspect)
      writer.close
      exit!(0)
    end
    writer.close
    assert reader.wait_readable(NeverBlockTest::LIMIT), "the child waits for a thread it does not have"
    assert_equal "[0, 0, :child]", reader.read
    Process.wait(pid)
    @gate << true
    assert_equal [:parent] * 2, threads.map(&:value)
  ensure
    reader.close
  end

  def test_invalid_arguments_are_named
    assert_raises(ArgumentError) { @flight.call(:key) }
    error = assert_raises(ArgumentError) { NeverBlock::Flight.new(share: "KeyError") }
    assert_includes error.message, '"KeyError"'
  end

  private

  # Tasks that ask for the same key; each returns the value or the error.
  def ask(count, &block)
    Array.new(count) do
      NeverBlock.spawn do
        @asked += 1
        outcome { @flight.call(:key, &block) }
      end
    end
  end

  # A thread that asks, once it waits for the answer or for the gate.
  def asking_thread(&block)
    thread = Thread.new { @flight.call(:key, &block) }
    wait_until("the thread to wait") { thread.stop? }
    thread
  end

  # A computation that lasts until the gate opens.
  def compute
    @runs += 1
    @gate.pop
    yield
  end

  def open_gate(after:)
    wait_until("all to ask") { @asked == after }
    @gate.close
  end

  def outcome
    yield
  rescue => error
    error
  end
end
