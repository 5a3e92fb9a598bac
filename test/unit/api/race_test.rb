# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"

class RaceTest < Minitest::Test
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  def test_the_first_success_wins_and_the_rest_is_cancelled
    log = []
    slow = lambda do
      sleep
    ensure
      sleep 10
      log << :cancelled
    end
    assert_equal :near, in_run { NeverBlock.race(slow, -> { sleep(1) && :near }, slow) }
    assert_equal [:cancelled] * 2, log
    assert_in_delta 11, clock.elapsed
  end

  def test_outside_a_loop_it_starts_one
    assert_equal :near, on_thread { NeverBlock.race(-> { sleep }, -> { sleep(1) && :near }) }
    assert_nil Fiber.scheduler
  end

  def test_nil_and_false_win_too
    assert_nil NeverBlock.race(-> {}, -> { sleep })
    assert_equal false, NeverBlock.race(-> { false }, -> { sleep })
  end

  def test_failures_do_not_count_while_another_contestant_runs
    assert_equal :late, in_run { NeverBlock.race(-> { raise "early" }, -> { sleep(1) && :late }) }
  end

  def test_all_fail
    error = raised { in_run { NeverBlock.race(-> { sleep(1) && raise("second") }, -> { raise IOError, "first" }) } }
    assert_kind_of IOError, error
    assert_equal ["first", ["second"]], [error.message, error.errors.map(&:message)]
  end

  def test_all_fail_with_frozen_errors
    frozen = RuntimeError.new("frozen").freeze
    assert_same frozen, raised { NeverBlock.race(-> { raise frozen }, -> { raise frozen }) }
  end

  def test_one
    assert_equal 1, NeverBlock.race(-> { 1 })
    assert_equal "alone", raised { NeverBlock.race(-> { raise "alone" }) }.message
  end

  def test_any_object_with_call
    assert_equal "7", NeverBlock.race(7.method(:to_s))
    assert_equal 8, NeverBlock.race(Class.new { def call = 8 }.new)
    assert_equal 9, NeverBlock.race(proc { next 9 })
  end

  def test_bad_input
    assert_match(/at least one callable/, assert_raises(ArgumentError) { NeverBlock.race }.message)
    assert_match(/a contestant must respond to call, got :x/, assert_raises(ArgumentError) { NeverBlock.race(-> { flunk "it ran" }, :x) }.message)
  end

  def test_an_exception_outside_of_standard_error_ends_the_race
    error = raised { in_run { NeverBlock.race(-> { raise NotImplementedError, "no" }, -> { sleep }) } }
    assert_kind_of NotImplementedError, error
  end

  def test_a_loser_that_fails_while_it_is_cancelled_does_not_count
    loser = lambda do
      sleep
    ensure
      raise "ensure"
    end
    assert_equal 1, in_run { NeverBlock.race(loser, -> { sleep(1) && 1 }) }
  end

  def test_a_cancelled_contestant_does_not_win
    cancelled = -> { NeverBlock::Task.current.cancel && sleep }
    assert_equal 1, in_run { NeverBlock.race(cancelled, -> { sleep(1) && 1 }) }
    assert_equal "no", raised { in_run { NeverBlock.race(cancelled, -> { raise "no" }) } }.message
    assert_kind_of NeverBlock::Cancelled, raised { in_run { NeverBlock.race(cancelled, cancelled) } }
  end

  def test_inside_a_timeout_and_nested
    in_run do
      assert_kind_of NeverBlock::TimeoutError, raised { NeverBlock.timeout(5) { NeverBlock.race(-> { sleep }) } }
      inner = -> { NeverBlock.race(-> { sleep }, -> { sleep(1) && :inner }) }
      assert_equal :inner, NeverBlock.race(-> { sleep }, inner)
    end
  end

  def test_a_thousand_contestants
    assert_equal 500, in_run { NeverBlock.race(*Array.new(1_000) { |n| -> { (n == 500) ? n : sleep } }) }
  end
end
