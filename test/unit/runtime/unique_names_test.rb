# frozen_string_literal: true

require "test_helper"
require "neverblock/runtime/unique_names"

# Names of pools: unique among those that are open, whatever their number.
class UniqueNamesTest < Minitest::Test
  Thing = Struct.new(:gone, :name)

  def setup
    @names = NeverBlock::UniqueNames.new(&:gone)
    @things = []
  end

  def test_a_taken_name_gets_a_number
    assert_equal ["a", "a (2)", "b", "a (3)"], [take("a"), take("a"), take("b"), take(+"a")]
  end

  def test_a_name_is_free_when_its_thing_is_gone
    3.times { take("a") }
    @things[0].gone = true
    assert_equal ["a", "a (4)"], [take("a"), take("a")]
    @things[1].gone = true
    assert_equal "a (2)", take("a"), "the lowest one"
    20.times { take("a") }
    @things.each { |thing| thing.gone = true }
    assert_equal ["a", "a (2)"], [take("a"), take("a")]
  end

  def test_a_number_that_is_taken_by_that_name_is_passed_over
    assert_equal ["a (2)", "a", "a (3)"], [take("a (2)"), take("a"), take("a")]
  end

  # Regression: it compared with all names, for each number: ten thousand pools from one line took for ever.
  def test_the_cost_of_one_more_does_not_grow
    calls = [20, 500].map do |number|
      number.times { take("a") }
      count = 0
      TracePoint.new(:call, :c_call, :b_call) { count += 1 }.enable(target_thread: Thread.current) { take("a") }
      count
    end
    assert_equal calls[0], calls[1]
  end

  private

  def take(wanted)
    thing = Thing.new(false)
    @things << thing
    @names.take(wanted, thing).tap { |name| thing.name = name }
  end
end
