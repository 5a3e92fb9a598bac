# frozen_string_literal: true

require "test_helper"
require "support/runs"
require "support/virtual_time"
require "timeout"

# Timeouts inside timeouts: the one that is due unwinds its own block, and no other.
class TimeoutNestedTest < Minitest::Test
  include NeverBlockTest::Helpers
  include NeverBlockTest::Runs
  include NeverBlockTest::VirtualTime

  class Own < StandardError; end

  def test_the_outer_is_due_first
    in_run do
      log = []
      error = raised do
        NeverBlock.timeout(1) do
          Timeout.timeout(60) { sleep }
        rescue Timeout::Error
          log << :inner
        end
      end
      assert_kind_of NeverBlock::TimeoutError, error
      assert_empty log
    end
  end

  def test_the_inner_is_due_first
    in_run do
      log = []
      value = NeverBlock.timeout(60) do
        Timeout.timeout(1) { sleep }
      rescue Timeout::Error => error
        log << error.class
        :rescued
      end
      assert_equal [:rescued, [Timeout::Error]], [value, log]
    end
  end

  def test_with_equal_deadlines_the_outer_one_is_raised
    in_run do
      20.times do
        error = raised do
          NeverBlock.timeout(3) do
            Timeout.timeout(3) { sleep }
          rescue Timeout::Error
            flunk "the inner one took its place"
          end
        end
        assert_kind_of NeverBlock::TimeoutError, error
      end
    end
  end

  def test_with_both_overdue_the_outer_one_is_raised
    in_run do
      error = raised do
        NeverBlock.timeout(4) do
          Timeout.timeout(2) { hold(10) && sleep }
        rescue Timeout::Error
          flunk "the inner one claimed it"
        end
      end
      assert_kind_of NeverBlock::TimeoutError, error
    end
  end

  def test_an_outer_one_without_a_class_passes_an_inner_class_and_its_rescue
    in_run do
      log = []
      error = raised do
        Timeout.timeout(0.5) do
          Timeout.timeout(60, Own) { sleep }
        rescue Own, StandardError
          log << :inner
        end
      end
      assert_kind_of Timeout::Error, error
      assert_empty log
    end
  end

  def test_an_outer_class_is_raised_inside_an_inner_one_without_a_class
    in_run do
      log = []
      value = Timeout.timeout(0.5, Own) do
        Timeout.timeout(60) do
          sleep
        rescue Own
          log << :inside
          :value
        end
      end
      assert_equal [:value, [:inside]], [value, log]
    end
  end

  def test_the_same_class_twice
    in_run do
      error = raised { Timeout.timeout(0.5, Own, "outer") { Timeout.timeout(60, Own, "inner") { sleep } } }
      assert_equal "outer", error.message
      error = raised { Timeout.timeout(60, Own, "outer") { Timeout.timeout(0.5, Own, "inner") { sleep } } }
      assert_equal "inner", error.message
    end
  end

  def test_the_outer_is_due_while_an_inner_ensure_waits
    in_run do
      log = []
      error = raised do
        NeverBlock.timeout(7) do
          Timeout.timeout(2) do
            sleep
          ensure
            begin
              sleep
            ensure
              log << :outer_unwinds
            end
          end
        end
      end
      assert_kind_of NeverBlock::TimeoutError, error
      assert_equal [:outer_unwinds], log
    end
  end

  def test_twenty_nested_only_the_due_one_unwinds
    in_run do
      reached = []
      nest = lambda do |level|
        return sleep if level == 20
        NeverBlock.timeout((level == 10) ? 0.5 : 60) { nest.call(level + 1) }
      ensure
        reached << level
      end
      error = raised { nest.call(0) }
      assert_match(/after 0.5 s/, error.message)
      assert_equal 20.downto(0).to_a, reached
    end
  end
end
