# frozen_string_literal: true

require "neverblock/runtime/monotonic_clock"

module NeverBlockTest
  # The clock of the library's deadlines and ages (NeverBlock::MonotonicClock) in the hands of a test: it stands still
  # until the test moves it. Sleeps and waits of the loop keep to the real time.
  #
  #   include NeverBlockTest::HandClock
  #
  #   stop_clock
  #   store.read(key)
  #   forward(11)         # eleven seconds later, for all objects
  module HandClock
    # In front of the real one.
    module Hand
      class << self
        # @return [Float, nil] nil: the real time
        attr_accessor :time
      end

      private

      def now = Hand.time || super
    end

    NeverBlock::MonotonicClock.prepend(Hand)

    def teardown
      Hand.time = nil
      super
    end

    private

    # @param time [Float] seconds
    def stop_clock(time = Process.clock_gettime(Process::CLOCK_MONOTONIC)) = Hand.time = time

    # @param seconds [Numeric]
    def forward(seconds) = Hand.time += seconds
  end
end
