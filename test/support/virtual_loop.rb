# frozen_string_literal: true

require "neverblock/testing"
require_relative "loops"

module NeverBlockTest
  # Runs each test, with its setup and teardown, in a loop of its own on a virtual clock. For tests whose servers and
  # clients are all tasks:
  #
  #   class IdleTest < Minitest::Test
  #     include NeverBlockTest::VirtualLoop
  #
  #     def test_an_hour
  #       reader, writer = IO.pipe
  #       NeverBlock.spawn { sleep(3600) && writer.close }
  #       reader.read
  #       assert_in_delta 3600, clock.elapsed
  #     end
  #   end
  module VirtualLoop
    include Loops

    # A loop that hangs has no time of its own.
    def run
      time_it { with_virtual_clock { capture_exceptions { in_loop { super } } } }
      Minitest::Result.from(self)
    end

    private

    # @return [NeverBlock::Testing::VirtualClock]
    attr_reader :clock

    # @return [Float] seconds
    def now = NeverBlock::Clock.now

    def with_virtual_clock
      @clock = NeverBlock::Testing::VirtualClock.start
      yield
    ensure
      @clock.stop
    end
  end
end
