# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

# The effects of NeverBlock.select on the queues that did not win: their items and their waiters.
class SelectLosslessTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_items_pushed_in_the_same_turn_stay_in_their_queues
    20.times do
      in_run do |scope|
        queues = Array.new(3) { Thread::Queue.new }
        scope.spawn { queues.each_with_index { |queue, index| queue.push([index, 1]).push([index, 2]) } }
        winner, item = NeverBlock.select(*queues)
        assert_equal [queues.index(winner), 1], item
        left = queues.flat_map { |queue| Array.new(queue.size) { queue.pop } }
        assert_equal ([[0, 1], [0, 2], [1, 1], [1, 2], [2, 1], [2, 2]] - [item]), left
        assert_quiet(*queues)
      end
    end
  end

  def test_a_fiber_that_waits_for_the_other_queue_is_woken
    20.times do
      in_run do |scope|
        one, other = Thread::Queue.new, Thread::Queue.new
        selecting = parked(scope.spawn { NeverBlock.select(one, other).last })
        poppers = [one, other].map { |queue| parked(scope.spawn { queue.pop }) }
        one << :one
        other << :other
        won = selecting.value
        pass_until("the other item's taker") { one.empty? && other.empty? && poppers.one?(&:alive?) }
        poppers.each(&:cancel).each(&:join)
        assert_equal %i[one other], [won, *poppers.reject(&:cancelled?).map(&:value)].sort
      end
    end
  end

  def test_a_thread_that_waits_for_the_other_queue_is_woken
    10.times do
      in_run do |scope|
        one, other = Thread::Queue.new, Thread::Queue.new
        selecting = parked(scope.spawn { NeverBlock.select(one, other).last })
        threads = [one, other].map { |queue| Thread.new { queue.pop } }
        pass_until("the threads' waits") { [one, other].all? { |queue| queue.num_waiting == 2 } }
        one << :one
        other << :other
        won = selecting.value
        pass_until("the other item's taker") { one.empty? && other.empty? }
        winner = threads.fetch((won == :one) ? 1 : 0)
        assert_equal [:one, :other], [won, winner.value].sort
        threads.each(&:kill).each(&:join)
      end
    end
  end

  def test_a_popper_of_another_loop_is_woken
    one, other = Thread::Queue.new, Thread::Queue.new
    far = []
    in_run do |scope|
      selecting = parked(scope.spawn { NeverBlock.select(one, other).last })
      threads = [one, other].map { |queue| Thread.new { NeverBlock.run { far << queue.pop } } }
      pass_until("the other loops' waits") { [one, other].all? { |queue| queue.num_waiting == 2 } }
      one << :one
      other << :other
      won = selecting.value
      pass_until("the other item's taker") { far.size == 1 }
      assert_equal [:one, :other], [won, *far].sort
      [one, other].each(&:close)
      threads.each(&:join)
    end
  end

  def test_a_pusher_that_waits_for_the_room_that_a_select_left_is_woken
    in_run do |scope|
      full = Thread::SizedQueue.new(1)
      full << :first
      selecting = parked(scope.spawn { NeverBlock.select { |on| on.push(full, :selected) } })
      pusher = parked(scope.spawn { full << :pushed })
      assert_equal :first, full.pop
      selecting.cancel
      assert_same pusher, pusher.join(5)
      assert_equal :pushed, full.pop
      assert_kind_of NeverBlock::Cancelled, raised { selecting.value }
      assert_quiet full
    end
  end

  def test_a_cancelled_select_loses_nothing
    in_run do |scope|
      queues = Array.new(2) { Thread::Queue.new }
      selecting = parked(scope.spawn { NeverBlock.select(*queues) })
      popper = parked(scope.spawn { queues.last.pop })
      queues.each { |queue| queue << :item }
      selecting.cancel
      outcomes = [selecting, popper].map { |task| task.join(5) && outcome(task) }
      assert_equal :item, outcomes.last, "the popper was not woken"
      assert_kind_of NeverBlock::Cancelled, outcomes.first
      assert_equal [1, 0], queues.map(&:size)
      assert_quiet(*queues)
    end
  end

  def test_a_timed_out_select_loses_nothing
    in_run do |scope|
      queue = Thread::Queue.new
      100.times do
        scope.spawn { sleep(1) && queue << :item }
        won = begin
          Timeout.timeout(1) { NeverBlock.select(queue, Thread::Queue.new)&.last }
        rescue Timeout::Error
          nil
        end
        assert_equal :item, won || queue.pop(timeout: 5)
      end
      assert_quiet queue
    end
  end

  def test_an_item_pushed_between_the_check_and_the_wait
    in_run do |scope|
      sneaky = Class.new(Thread::Queue) do
        attr_accessor :armed

        def empty?
          return super unless super && armed&.shift == :push
          push(:sneaked)
          true
        end
      end.new
      sneaky.armed = [nil, :push] # the look, then the helper's
      plain = Thread::Queue.new
      selecting = scope.spawn { NeverBlock.select(plain, sneaky, plain) }
      pass_until("the end") { !selecting.alive? }
      assert_equal [sneaky, :sneaked], selecting.value
      assert_quiet plain, sneaky
    end
  end

  def test_a_cancellation_does_not_lose_an_item_taken_meanwhile
    in_run do |scope|
      selecting = nil
      sneaky = Class.new(Thread::Queue) do
        define_method(:empty?) do
          super().tap do |empty|
            @looks = @looks.to_i + 1
            selecting.cancel && push(:sneaked) if empty && @looks == 2
          end
        end
      end.new
      seen = []
      selecting = scope.spawn { (seen << NeverBlock.select(Thread::Queue.new, sneaky).last) && sleep }
      selecting.join
      assert_equal [:sneaked], seen
      assert_predicate selecting, :cancelled?
    end
  end

  def test_many_selects_on_the_same_queues
    in_run do |scope|
      queues = Array.new(3) { Thread::Queue.new }
      takers = Array.new(100) { scope.spawn { NeverBlock.select(*queues).last } }
      parked(takers.last)
      100.times { |number| queues[number % 3] << number }
      assert_equal (0...100).to_a, takers.map(&:value).sort
      assert_quiet(*queues)
    end
  end

  def test_a_source_that_is_always_ready_does_not_starve_the_others
    busy = Array.new(2) { queue_of(*1..200) }
    won = Array.new(200) { NeverBlock.select(*busy, timeout: 0).first }.tally
    busy.each { |queue| assert_operator won[queue], :>, 50 }
  end

  def test_the_same_source_twice
    in_run do |scope|
      queue = Thread::Queue.new
      scope.spawn { 2.times { |number| queue << number } }
      assert_equal [0, 1], Array.new(2) { NeverBlock.select(queue, queue).last }
      assert_quiet queue
    end
  end

  # Fibers and threads select, pop, are cancelled and time out; each item is got once, in the order of its queue.

  def test_a_loop_that_has_ended_meanwhile_has_no_waiter
    ended = Thread.new { NeverBlock::Scheduler.new.tap(&:close) }.value
    assert_equal false, ended.wake_waiter(Thread::Queue.new, true)
  end

  private

  def queue_of(*items) = Thread::Queue.new(items)

  # No fiber or thread waits in them.
  def assert_quiet(*queues)
    assert_equal [0] * queues.size, queues.map(&:num_waiting)
  end
end

# Threads and fibers that are never idle: virtual time would stand still.
class SelectStressTest < Minitest::Test
  include NeverBlockTest::Runs

  slow "thousands of selects"
  def test_stress
    queues = Array.new(3) { Thread::Queue.new }
    count = 300
    got = Thread::Queue.new
    in_run do |scope|
      pushers = queues.each_with_index.map { |queue, at| Thread.new { count.times { |n| (queue << [at, n]) && (n % 50).zero? && Thread.pass } } }
      takers = Array.new(4) { scope.spawn { loop { got << NeverBlock.select(*queues).last } } }
      takers += Array.new(2) { |at| scope.spawn { loop { got << queues[at].pop } } }
      impatient = scope.spawn do
        random = Random.new(1)
        loop do
          item = NeverBlock.select(*queues, timeout: random.rand / 1_000)&.last
          got << item if item
        end
      end
      threads = [Thread.new { loop { got << NeverBlock.select(*queues).last } }, Thread.new { loop { got << queues[2].pop } }]
      restless = scope.spawn do
        loop do
          NeverBlock.run do |inner|
            inner.spawn { got << NeverBlock.select(*queues).last }
            NB.pass
            inner.cancel
          end
        end
      end
      pass_until("all items, of #{got.size}") { got.size == count * 3 }
      pushers.each(&:join)
      [*takers, impatient, restless].each(&:cancel).each(&:join)
      threads.each(&:kill).each(&:join)
      items = Array.new(got.size) { got.pop }
      assert_equal Array.new(3) { |at| Array.new(count) { |n| [at, n] } }.flatten(1), items.sort
      assert_equal [0, 0, 0], queues.map(&:num_waiting)
    end
  end
end
