# frozen_string_literal: true

require "test_helper"
require "neverblock/sql/classification_cache"

# What was found of a text is kept by the text, or by its shape, in a bounded number of entries.
class SqlClassificationCacheTest < Minitest::Test
  def test_a_text_is_classified_once
    cache = cache()
    assert_same cache.call("select a"), cache.call(+"select a")
    assert_equal ["select a"], @classified
  end

  def test_texts_that_differ_in_literals_are_classified_once
    cache = cache()
    assert_same cache.call("select 1"), cache.call("select 22")
    assert_equal ["select 0"], @classified
  end

  def test_what_depends_on_literals_is_classified_for_each_text
    cache = cache(by_shape: false)
    assert_equal ["select 1", "select 2", "select 1"], ["select 1", "select 2", "select 1"].map { |sql| cache.call(sql).first }
    assert_equal ["select 0", "select 1", "select 2"], @classified, "the shape once"
  end

  def test_a_text_without_a_shape_is_classified_by_itself
    cache = cache()
    assert_equal ["select 1 -- a", "select 2 -- a"], ["select 1 -- a", "select 2 -- a"].map { |sql| cache.call(sql).first }
  end

  def test_the_number_of_entries_is_bounded
    cache = cache()
    first = cache.call("select a")
    5_000.times do |number|
      cache.call("select b#{number}")
      cache.call("select c#{number}, 1")
      assert_same first, cache.call("select a") if (number % 500).zero?
    end
    assert_operator cache.size, :<=, 4_000
    cache.clear
    assert_equal 0, cache.size
    refute_same first, cache.call("select a")
  end

  def test_long_texts_and_shapes_are_not_kept
    cache = cache()
    long = "select #{"a, " * 4_000}1"
    refute_same cache.call(long), cache.call(long)
    list = "select #{(1..10_000).to_a.join(", ")}"
    assert_same cache.call(list), cache.call("select '7', 8")
    parameters = "select #{(1..10_000).map { |n| "$#{n}" }.join(", ")}"
    assert_same cache.call("#{parameters}, 1"), cache.call("#{parameters}, 2, 3")
    assert_operator @classified.last.size, :<, 100_000
  end

  # Regression: a literal of 1 MB was read by character.
  def test_a_long_literal_is_not_read
    cache = cache()
    assert_same cache.call("select '#{"a" * 2_000_000}'"), cache.call("select '\\x#{"00" * 1_000_000}'")
    assert_equal ["select ''"], @classified
  end

  def test_what_is_no_text_is_left_to_the_classifier
    assert_equal [nil], cache.call(nil)
  end

  private

  def cache(by_shape: true)
    @classified = []
    NeverBlock::Sql::ClassificationCache.new(:postgres, by_shape: ->(_found) { by_shape }) do |sql|
      @classified << sql
      [sql].freeze
    end
  end
end
