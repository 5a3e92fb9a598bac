# frozen_string_literal: true

require "test_helper"
require "support/suite/lanes"
require "tempfile"

# How many test programs run at a time.
class SuiteLanesTest < Minitest::Test
  Lanes = NeverBlockTest::Suite::Lanes

  def setup
    @file = Tempfile.new("stat")
    processors(busy: 0, idle: 0)
  end

  def teardown = @file.close!

  def test_a_busy_machine_has_one_run_more_than_processors
    lanes = lanes()
    processors(busy: 90, idle: 10)
    assert lanes.room?(Lanes::LEAST - 1)
    refute lanes.room?(Lanes::LEAST)
  end

  def test_idle_processors_get_more
    lanes = lanes()
    processors(busy: 50, idle: 50)
    assert lanes.room?(Lanes::LEAST)
    processors(busy: 145, idle: 55)
    refute lanes.room?(Lanes::LEAST + 1), "5 of 100 ticks are left"
    processors(busy: 150, idle: 150)
    refute lanes.room?(Lanes::MOST)
  end

  def test_between_two_looks_no_run_starts
    lanes = lanes(every: 3600)
    processors(busy: 0, idle: 100)
    refute lanes.room?(Lanes::LEAST)
  end

  # In a container the file has the times of a machine with more processors.
  def test_without_a_view_of_its_processors_there_is_no_more
    lanes = lanes()
    processors(busy: 0, idle: 100, count: Etc.nprocessors + 1)
    refute lanes.room?(Lanes::LEAST)
    refute lanes(path: "/nowhere").room?(Lanes::LEAST)
  end

  def test_a_limit_is_a_limit
    processors(busy: 0, idle: 100)
    assert lanes(limit: 1).room?(0)
    refute lanes(limit: 1).room?(1)
  end

  private

  def lanes(limit: nil, every: -1, path: @file.path) = Lanes.new(limit:, path:, every:)

  def processors(busy:, idle:, count: Etc.nprocessors)
    File.write(@file.path, "cpu #{busy} 0 0 #{idle} 0 0\n#{Array.new(count) { |number| "cpu#{number} 0 0 0 0 0 0\n" }.join}")
  end
end
