# frozen_string_literal: true

require "neverblock/testing"

module NeverBlockTest
  # Runs each test on a virtual clock: sleeps and limits in a loop take no real time, and `now` is virtual.
  #
  #   class LeaseTest < Minitest::Test
  #     include NeverBlockTest::VirtualTime
  #
  #     def test_a_lease_ends_after_its_time
  #       lease = Lease.new(60)
  #       clock.advance(61)
  #       assert_predicate lease, :expired?
  #     end
  #   end
  #
  # For a part of a test, outside of loops:
  #
  #   NeverBlockTest::VirtualTime.during { |clock| clock.advance(61) && lease.expired? }
  module VirtualTime
    # @yieldparam clock [NeverBlock::Testing::VirtualClock]
    # @return [Object] the block's value
    def self.during
      clock = NeverBlock::Testing::VirtualClock.start
      yield clock
    ensure
      clock&.stop
    end

    def before_setup
      @clock = NeverBlock::Testing::VirtualClock.start
      super
    end

    def after_teardown
      super
    ensure
      @clock.stop
    end

    private

    # @return [NeverBlock::Testing::VirtualClock]
    attr_reader :clock

    # @return [Float] seconds
    def now = NeverBlock::Clock.now

    # Moves the time while the loop is held, as by code that computes: what becomes due is due at once afterwards.
    def hold(seconds) = Fiber.blocking { clock.advance(seconds) }

    # @return [Float] virtual seconds that the block took
    def seconds_of
      before = clock.elapsed
      yield
      (clock.elapsed - before).round(6)
    end
  end
end
