# frozen_string_literal: true

require "test_helper"
require "neverblock/cache"

class CacheMemoTest < Minitest::Test
  def test_a_text_is_computed_once
    calls = 0
    memo = NeverBlock::Cache::Memo.new
    assert_equal [1, 1], Array.new(2) { memo.fetch("a") { calls += 1 } }
    assert_equal [2, nil, nil], [memo.fetch("b") { calls += 1 }, *Array.new(2) { memo.fetch("c") {} }]
  end

  def test_a_text_that_is_changed_later
    memo = NeverBlock::Cache::Memo.new
    text = +"a"
    memo.fetch(text) { 1 }
    text << "b"
    assert_equal [1, 2], [memo.fetch("a") { 3 }, memo.fetch("ab") { 2 }]
  end

  def test_memory_is_bounded
    memo = NeverBlock::Cache::Memo.new(most: 10, longest: 5)
    1_000.times { |n| assert_equal n, memo.fetch(n.to_s) { n } }
    assert_includes 1..10, 999.downto(0).count { |n| memo.fetch(n.to_s) { :forgotten } == n }
    calls = 0
    2.times { memo.fetch("longer") { calls += 1 } }
    assert_equal 2, calls
  end

  def test_an_error_is_not_kept
    memo = NeverBlock::Cache::Memo.new
    assert_raises(IOError) { memo.fetch("a") { raise IOError } }
    assert_equal 1, memo.fetch("a") { 1 }
  end
end
