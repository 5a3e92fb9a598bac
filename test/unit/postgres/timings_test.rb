# frozen_string_literal: true

require "test_helper"

# The durations of statements, measured beside a loop that may be busy.
class PostgresTimingsTest < Minitest::Test
  include NeverBlockTest::Helpers

  SHAPE = "select ?"

  def setup
    skip "pg is not among the gems here" unless Gem.loaded_specs.key?("pg")
    require "neverblock/postgres"
    @timings = NeverBlock::Postgres::Timings.new
  end

  # From another thread than the one that learns: iterating over the Hash itself would block additions to it.
  def test_the_slow_ones_are_told
    fast, slow, slower = %w[fast slow slower].map(&:-@)
    [[fast, 0.001], [slow, 0.5], [slower, 2.0]].each { |shape, seconds| @timings.record(shape, seconds) }
    assert_equal [["slow", 0.5], ["slower", 2.0]], @timings.slow.sort_by(&:last)
    @timings.slow.each { |shape, _| @timings.record(-"#{shape} too", 1) }
  end

  def test_a_statement_that_was_fast_once_is_fast
    refute @timings.fast?(SHAPE)
    assert @timings.record(SHAPE, 0.001)
    assert @timings.fast?(SHAPE)
    refute @timings.record(SHAPE, 0.001), "it was before"
  end

  def test_a_slow_statement_is_slow_until_it_is_fast_again
    refute @timings.record(SHAPE, 0.2)
    refute @timings.fast?(SHAPE)
    assert((1..100).any? { @timings.record(SHAPE, 0.001) })
  end

  # The loop didn't poll for 200 ms: the answer may have arrived at once, or just now.
  # Twelve connections that open at once, or a lock, make a statement late that is usually fast.
  def test_one_late_run_makes_nothing_slow
    @timings.record("find", 0.001)
    @timings.record("find", 2.0)
    assert @timings.fast?("find")
    @timings.record("find", 2.0)
    assert @timings.slow?("find")
  end

  def test_what_was_cancelled_for_others_is_slow_at_once
    @timings.record("find", 0.001)
    @timings.held_up("find", 0.2)
    assert @timings.slow?("find")
  end

  def test_a_busy_loop_makes_nothing_fast
    100.times { refute @timings.record(SHAPE, 0.0, 0.2) }
    refute @timings.fast?(SHAPE)
    assert @timings.record(SHAPE, 0.0, 0.005)
  end

  def test_a_busy_loop_makes_nothing_slow
    @timings.record(SHAPE, 0.001)
    100.times { @timings.record(SHAPE, 0.0, 0.2) }
    assert @timings.fast?(SHAPE)
  end

  # Ten times the size that counts like ten milliseconds, the threshold of a slow statement.
  def test_a_large_answer_makes_slow_as_time_does
    refute @timings.record(SHAPE, 0.0001, 0.0001, 2_560 * 1024)
    assert @timings.slow?(SHAPE)
    assert((1..100).any? { @timings.record(SHAPE, 0.0001, 0.0001, 1_024) })
    refute @timings.record(SHAPE, 0.0001, 0.0001, 2_560 * 1024)
    refute @timings.fast?(SHAPE), "one that was large among small ones"
    assert_in_delta 0.01, @timings.threshold, 0.004, "what is usual is a time"
  end

  def test_many_small_answers_make_fast
    assert @timings.record(SHAPE, 0.0001, 0.0001, 64 * 1024)
    100.times { @timings.record(SHAPE, 0.0001, 0.0001, 200 * 1024) }
    assert @timings.fast?(SHAPE)
  end

  # However long the loop did not poll.
  def test_a_large_answer_that_was_read_by_a_busy_loop
    refute @timings.record(SHAPE, 0.0, 0.2, 2_560 * 1024)
    assert @timings.slow?(SHAPE)
  end

  # Regression: each of these lowered an average a little, until Ruby needed an object for the number.
  def test_a_statement_that_takes_no_time_costs_no_objects
    10_000.times { @timings.record(SHAPE, 0.0) }
    assert_operator objects_per_call(1_000) { @timings.record(SHAPE, 0.0) || @timings.fast?(SHAPE) }, :<, 0.05
    assert_in_delta 0.01, @timings.threshold, 0.001
  end

  # A program may make a text of its own for each statement: the oldest half is forgotten.
  def test_shapes_beyond_the_limit_take_the_place_of_the_oldest
    most = NeverBlock::Postgres::Timings::MAX_SHAPES
    shapes = Array.new(2 * most + 1) { |n| -"select #{n}" }
    shapes.each { |shape| @timings.record(shape, 0.001) }
    assert_equal [false, true, true], [shapes.first, shapes[most], shapes.last].map { |shape| @timings.fast?(shape) }
    @timings.record(shapes[most], 0.001) # what is used stays
    shapes.first(most).each { |shape| @timings.record(shape, 0.001) }
    assert_equal [true, false], [shapes[most], shapes[most + 1]].map { |shape| @timings.fast?(shape) }
  end
end
