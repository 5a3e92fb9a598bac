# frozen_string_literal: true

require "test_helper"
require "neverblock"
require "neverblock/shards"
require "support/loops"
require "support/virtual_time"

# NeverBlock::Shards over lists of any objects. test/integration has databases.
class ShardsTest < Minitest::Test
  include NeverBlockTest::Loops
  include NeverBlockTest::Helpers
  include NeverBlockTest::VirtualTime

  Shards = NeverBlock::Shards

  # -- values

  def test_values_by_shard_in_the_order_of_the_shards
    in_loop do
      late = Thread::Queue.new
      values = Shards.map({eu: 1, us: 2, asia: 3}) do |database, name|
        (name == :eu) ? late.pop : late << database
        "#{name} #{database}"
      end
      assert_equal({eu: "eu 1", us: "us 2", asia: "asia 3"}, values)
      assert_equal %i[eu us asia], values.keys
      assert_predicate values, :complete?
      assert_empty values.errors
    end
  end

  def test_a_list_has_its_elements_as_names
    first, second = Object.new, Object.new
    assert_equal({first => first.object_id, second => second.object_id}, Shards.map([first, second], &:object_id))
    assert_equal({1 => 2, 2 => 3}, Shards.map(1..2) { |number| number + 1 })
  end

  def test_each_returns_no_values
    seen = []
    assert_equal({}, Shards.each([3, 1, 2]) { |number| seen << number })
    assert_equal [1, 2, 3], seen.sort
  end

  def test_no_shards
    assert_equal [{}, {}, nil], [Shards.map([]) { flunk }, Shards.each([]) { flunk }, Shards.first({}) { flunk }]
  end

  def test_all_are_asked_at_once
    in_loop do
      there = Thread::Queue.new
      Shards.each(1..30) do |number|
        there << number
        pass_until("all to be there") { there.size == 30 }
      end
    end
  end

  def test_no_more_are_asked_at_a_time_than_the_limit_says
    running, most = 0, 0
    Shards.each(1..20, limit: 3) do
      most = [most, running += 1].max
      sleep 1
      running -= 1
    end
    assert_equal 3, most
    assert_in_delta 7, clock.elapsed
  end

  def test_each_shard_has_a_fiber_that_inherits_the_caller_s_storage
    in_loop do
      Fiber[:tenant] = 7
      fibers = Shards.map([1, 2]) { [Fiber.current, Fiber[:tenant]] }.values
      assert_equal 3, [Fiber.current, *fibers.map(&:first)].uniq.size
      assert_equal [7, 7], fibers.map(&:last)
    end
  end

  # -- errors

  def test_an_error_is_raised_when_all_have_ended_and_names_its_shard
    ended = []
    failed = []
    error = assert_raises(Shards::Incomplete) do
      Shards.each({eu: 1, us: 2, asia: 3}) do |_, name|
        raise "no space left\non any disk" if name == :us
        pass_until("the failure") { failed.any? } if name == :eu
        ended << name
      ensure
        failed << name
      end
    end
    assert_equal "Shards.each: 1 of 3 shards failed: :us: no space left (RuntimeError). " \
      "With partial: true it returns what the others have", error.message
    assert_equal %i[asia eu], ended.sort
    assert_equal [[:us], "no space left\non any disk"], [error.errors.keys, error.errors[:us].message]
    assert_same error.errors[:us], error.cause
    assert_kind_of NeverBlock::Error, error
  end

  def test_partial_values_only_if_asked_for
    half = ->(number) { number.odd? ? number : raise(KeyError, "shard #{number}") }
    values = Shards.map(1..4, partial: true, &half)
    assert_equal({1 => 1, 3 => 3}, values)
    refute_predicate values, :complete?
    assert_equal({2 => "shard 2", 4 => "shard 4"}, values.errors.transform_values(&:message))
    assert_equal [2, 4], Shards.each(1..4, partial: true, &half).keys
    assert_equal [2, 4], assert_raises(Shards::Incomplete) { Shards.map(1..4, &half) }.errors.keys
  end

  def test_a_message_has_five_errors_and_no_database_s_inspect
    secret = Class.new { def inspect = "password" }
    error = assert_raises(Shards::Incomplete) { Shards.map(Array.new(7) { secret.new }) { raise "no" } }
    assert_match(/7 of 7 shards failed: number 1 \(#<Class:\w+>\): no \(RuntimeError\); .*number 5 .*; and 2 more\. With/, error.message)
    refute_match(/password/, error.message)
  end

  def test_a_block_is_called_once_for_each_shard_also_if_it_fails
    calls = Hash.new(0)
    Shards.each(1..3, partial: true) { |number| raise "no" if (calls[number] += 1) && number == 2 }
    Shards.first(1..3, partial: true) { |number| raise "no" if (calls[number] += 1) && number == 2 }
    assert_equal({1 => 2, 2 => 2, 3 => 2}, calls)
  end

  def test_what_is_no_standard_error_ends_the_others
    in_loop do
      cancelled = false
      assert_raises(NotImplementedError) do
        Shards.each([1, 2], partial: true) do |number|
          raise NotImplementedError if number == 2
          sleep
        ensure
          cancelled = true if number == 1
        end
      end
      assert cancelled
    end
  end

  # -- the deadline

  def test_a_shard_that_never_ends_costs_one_error_and_one_deadline
    values = Shards.map({eu: 1, us: 2, asia: 3}, timeout: 2, partial: true) { |number| (number == 2) ? sleep : number }
    assert_equal({eu: 1, asia: 3}, values)
    assert_equal [:us], values.errors.keys
    assert_kind_of NeverBlock::TimeoutError, values.errors[:us]
    assert_in_delta 2, clock.elapsed
  end

  def test_a_deadline_is_an_error_of_its_shard
    error = assert_raises(Shards::Incomplete) { Shards.map([1], timeout: 10) { sleep } }
    assert_match(/1 of 1 shards failed: 1: the deadline (has )?passed.* \(NeverBlock::TimeoutError\)/, error.message)
  end

  def test_the_deadline_is_one_for_all_shards_also_for_those_that_wait_for_a_place
    begun = 0
    values = Shards.map(1..50, limit: 1, timeout: 5, partial: true) { (begun += 1) && sleep }
    assert_equal 1, begun
    assert_in_delta 5, clock.elapsed
    assert_equal [50, [NeverBlock::TimeoutError]], [values.errors.size, values.errors.values.map(&:class).uniq]
  end

  def test_a_cancellation_of_the_caller_cancels_all
    in_loop do
      ended = 0
      started = 0
      task = NB.spawn do
        Shards.map(1..5, partial: true) do
          started += 1
          sleep
        ensure
          ended += 1
        end
      end
      pass_until("all to have begun") { started == 5 }
      task.cancel
      assert_kind_of NeverBlock::Cancelled, outcome(task)
      assert_equal 5, ended
    end
  end

  # -- the first

  def test_the_first_value_wins_and_the_others_are_cancelled
    in_loop do
      cancelled = []
      begun = []
      value = Shards.first({eu: 1, us: 2, asia: 3}) do |_, name|
        begun << name
        next if name == :eu # it has none
        pass_until("all to have begun") { begun.size == 3 }
        (name == :asia) ? sleep : "ann"
      rescue NeverBlock::Cancelled
        cancelled << name
        raise
      end
      assert_equal ["ann", [:asia]], [value, cancelled]
      assert_equal 1, NeverBlock.tasks.size, "the tasks of a call end with it"
    end
  end

  def test_false_is_a_value
    assert_equal false, Shards.first([1, 2]) { |number| false if number == 2 }
  end

  def test_none_is_nil_only_if_each_shard_has_said_so
    fails = ->(number) { raise "down" if number == 2 }
    assert_nil Shards.first(1..3) { nil }
    error = assert_raises(Shards::Incomplete) { Shards.first(1..3, &fails) }
    assert_match(/Shards.first: 1 of 3 shards failed: 2: down/, error.message)
    assert_nil Shards.first(1..3, partial: true, &fails)
    assert_equal 3, Shards.first(1..3) { |number| fails.call(number) || (number if number == 3) }
    assert_raises(Shards::Incomplete) { Shards.first([1], timeout: 10) { sleep } }
  end

  # -- what is refused

  def test_some_shards
    assert_equal({us: 2}, Shards.map({eu: 1, us: 2}, only: :us) { |number| number })
    assert_equal [3, 1], Shards.map(1..3, only: [3, 1]) { |number| number }.keys
    assert_equal({}, Shards.map(1..3, only: []) { flunk })
  end

  def test_an_unknown_shard_is_refused_with_the_known_ones_before_any_is_asked
    error = assert_raises(NeverBlock::ConfigurationError) { Shards.each({eu: 1, us: 2}, only: [:eu, :mars]) { flunk } }
    assert_equal "only: :mars is not a shard of the given databases. Known shards: :eu, :us", error.message
    error = assert_raises(NeverBlock::ConfigurationError) { Shards.each([Object.new], only: [Object.new]) { flunk } }
    assert_equal "only: that Object is not a shard of the given databases. Known shards: number 1 (Object)", error.message
  end

  def test_arguments_are_checked
    {"Shards.map: :eu is in the list twice" => -> { Shards.map(%i[eu us eu]) { flunk } },
     "Shards.first: databases must be a class of Active Record, a Hash or a list, not a String" => -> { Shards.first("postgres://a:b@c") { flunk } },
     "Shards.each: role: :reading is for Active Record's shards" => -> { Shards.each([1], role: :reading) { flunk } },
     "Shards.map needs a block" => -> { Shards.map([1]) },
     "limit: 0 is not a whole number, 1 or more" => -> { Shards.map([1], limit: 0) { flunk } },
     "timeout: -1 is not a number of seconds, 0 or more, or nil for no limit" => -> { Shards.first([1], timeout: -1) { flunk } }}
      .each { |message, call| assert_equal message, assert_raises(ArgumentError, &call).message }
  end

  slow "it starts a Ruby"
  def test_without_databases_it_needs_active_record
    output = assert_ruby(<<~RUBY)
      require "neverblock/shards"
      begin
        NeverBlock::Shards.map { }
      rescue NeverBlock::ConfigurationError => error
        puts error.message
      end
    RUBY
    assert_equal "Shards.map: without databases it needs Active Record. Give it a list\n", output
  end
end
