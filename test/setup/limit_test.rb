# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "support/limit"

# The limit of tests that would hang.
class LimitTest < Minitest::Test
  include NeverBlockTest::Helpers

  LIMIT = NeverBlockTest::LIMIT

  def test_the_value_of_the_block_is_returned
    answers = [nil, false, 7]
    assert_equal 7, wait_until { answers.shift }
  end

  def test_a_wait_fails_after_the_limit_and_names_the_condition
    times = [0, 1, LIMIT, LIMIT + 1]
    error = Process.stub(:clock_gettime, ->(_) { times.shift }) do
      assert_raises(Minitest::Assertion) { NeverBlockTest.wait_until(-> { "the #{1 + 1}nd" }, pause: 0) { false } }
    end
    assert_equal "the 2nd did not come true within #{LIMIT} s", error.message
    assert_empty times
  end
end
