# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"
require "neverblock/cache"

# One of several hosts fetches: what the one that has no lease does.
class CacheLeasesTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  KEY = ["https://example.org/a", [["accept", "x"], ["y", nil]]].freeze
  LONG = 20

  # Gives the leases of a list, one after the other, and the last one from then on.
  class Given
    attr_reader :names, :released

    def initialize(*leases)
      @leases = leases
      @names = []
      @released = []
    end

    def lease(name, _seconds)
      @names << name
      (@leases.size > 1) ? @leases.shift : @leases.first
    end

    def release(name, token)
      sleep(1)
      @released << [name, token]
    end
  end

  def test_the_one_that_has_it_fetches_and_gives_it_back
    store, outcome = call([true, "own"])
    assert_equal :fetched, outcome
    assert_equal [[store.names.first, "own"]], store.released
  end

  def test_what_was_stored_meanwhile_is_not_fetched
    store, outcome = call([true, "own"], stored: [true])
    assert_equal [:again, 1], [outcome, store.released.size]
  end

  def test_a_store_that_does_not_respond_has_no_leases
    store, outcome = call(nil)
    assert_equal [:fetched, 1, []], [outcome, store.names.size, store.released]
  end

  def test_one_that_waits_gets_what_was_stored
    store, outcome = call([false, "a"], [false, "a"], [true, "own"], stored: [true])
    assert_equal [:again, 3, 1, 1], [outcome, store.names.size, store.released.size, @leases.waited]
  end

  def test_one_that_waits_gets_the_lease_of_a_host_that_has_failed
    store, outcome = call([false, "a"], [false, "a"], [true, "own"])
    assert_equal [:fetched, 1], [outcome, store.released.size]
  end

  def test_it_waits_for_one_host_only
    store, outcome = call([false, "a"], [false, "b"])
    assert_equal [:fetched, 2, []], [outcome, store.names.size, store.released]
    _, outcome = call([false, "a"], [false, "b"], stored: [true])
    assert_equal :again, outcome
  end

  def test_it_does_not_wait_without_end
    _, outcome = call([false, "a"], wait: LONG)
    assert_equal :fetched, outcome
    assert_includes LONG..(LONG + 0.3), clock.elapsed # with the last pause
  end

  def test_a_store_that_stops_to_respond_during_the_wait
    _, outcome = call([false, "a"], nil)
    assert_equal :fetched, outcome
  end

  def test_a_lease_can_be_given_back_at_once
    store, = call([true, "own"]) { |lease| 2.times { lease.release } }
    assert_equal 1, store.released.size
  end

  def test_a_fetch_that_raises_gives_it_back
    store = nil
    assert_raises(IOError) { call(store = Given.new([true, "own"])) { raise IOError } }
    assert_equal 1, store.released.size
  end

  # Those that wait for the fetch ask the cache again.
  def test_a_task_that_is_cancelled_during_the_wait
    fill = new_fill
    in_run do |scope|
      task = scope.spawn { leases(Given.new([false, "a"])).call(fill, -> {}) { flunk } }
      parked(task)
      task.cancel
      raised { task.value }
    end
    assert_predicate fill, :dissolved?
  end

  def test_a_fetch_that_is_cancelled_gives_it_back
    store = Given.new([true, "own"])
    in_run do |scope|
      task = scope.spawn { leases(store).call(new_fill, -> {}) { sleep } }
      parked(task)
      task.cancel
      raised { task.value }
    end
    assert_equal 1, store.released.size
  end

  def test_names_tell_what_is_fetched_apart
    keys = [KEY, ["https://example.org/a", [["accept", "x"], ["y", ""]]], ["https://example.org/b", []], ["a", [["1:", "b"]]], ["a", [["1", ":b"]]]]
    names = keys.map do |key|
      store = Given.new([true, 1])
      in_run { leases(store).call(new_fill(key), -> {}) {} }
      store.names.first
    end
    assert_equal names.uniq, names
  end

  private

  def new_fill(key = KEY) = NeverBlock::Cache::Fill.new(key:, memory: 1, file: 0, window: 1, max_waiting: 10)

  def leases(store, wait: LONG) = @leases = NeverBlock::Cache::Leases.new(store, seconds: LONG, wait:)

  # @return [Array(Given, Symbol)] and what became of the fetch
  def call(*given, wait: LONG, stored: [false])
    store = (Given === given.first) ? given.first : Given.new(*given)
    fill = new_fill
    fetched = false
    in_run do
      leases(store, wait:).call(fill, -> { (stored.size > 1) ? stored.shift : stored.first }) do |lease|
        fetched = true
        yield lease if block_given?
      end
    end
    [store, fetched ? :fetched : (:again if fill.dissolved?)]
  end
end
