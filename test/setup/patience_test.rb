# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "support/patience"

# The limits of tests that would hang.
class PatienceTest < Minitest::Test
  include NeverBlockTest::Clock

  Patience = NeverBlockTest::Patience

  def test_a_limit_is_as_many_times_as_long_as_there_are_processes_for_a_processor
    assert_equal [20, 20, 60, 200], ["0.00", "3.90", "12.00", "400.00"].map { |load| at(load) { Patience.for(20) } }
  end

  def test_whether_it_is_over
    began = now - 15
    assert_equal [false, true, false, true], at("8.00") { [20, 5, 10, 7].map { |limit| Patience.over?(began, limit) } }
  end

  def test_a_system_that_does_not_tell
    File.stub(:read, ->(*) { raise Errno::ENOENT }) { assert_equal 20, Patience.for(20) }
  end

  private

  def at(load, &) = File.stub(:read, "#{load} 1.00 1.00 1/100 1\n") { Etc.stub(:nprocessors, 4, &) }
end
