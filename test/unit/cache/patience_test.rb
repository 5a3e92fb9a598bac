# frozen_string_literal: true

require "test_helper"
require "support/virtual_time"
require "neverblock/cache"

# A store that hangs is not asked for a while.
class CachePatienceTest < Minitest::Test
  include NeverBlockTest::VirtualTime

  def setup
    @patience = NeverBlock::Cache::Patience.new(long: 0.5, pause: 5)
  end

  def test_quick_operations
    3.times { assert_equal :value, take(0.4) }
    refute_predicate @patience, :over?
  end

  def test_a_long_one
    take(0.6)
    assert_predicate @patience, :over?
    clock.advance(4.9)
    assert_predicate @patience, :over?
  end

  def test_after_the_pause_one_tries
    take(2)
    clock.advance(5)
    assert_equal [false, true, true], Array.new(3) { @patience.over? }
    take(2)
    assert_predicate @patience, :over?
    clock.advance(5)
    refute_predicate @patience, :over?
    take(0.1)
    refute_predicate @patience, :over?
  end

  def test_one_that_raises
    assert_raises(IOError) { take(2) { raise IOError } }
    assert_predicate @patience, :over?
    @patience.renew
    refute_predicate @patience, :over?
  end

  def test_failures_that_count
    lost = ->(error) { IOError === error }
    assert_raises(ArgumentError) { @patience.watch(lost) { raise ArgumentError } }
    refute_predicate @patience, :rests?
    assert_raises(IOError) { @patience.watch(lost) { raise IOError } }
    assert_equal [true, true], [@patience.rests?, @patience.over?]
    clock.advance(5)
    assert_equal [false, false, false, true], [@patience.rests?, @patience.rests?, @patience.over?, @patience.rests?]
  end

  private

  def take(seconds)
    @patience.watch do
      clock.advance(seconds)
      yield if block_given?
      :value
    end
  end
end
