# frozen_string_literal: true

require_relative "patience"

module NeverBlockTest
  # Fails a test that leaves a call on one of the process's thread pools: that call would take a thread from all later
  # tests.
  #
  #   NB.spawn { NB.offload { gate.pop } }.cancel   # the call goes on: close the gate at the end of the test
  module IdlePools
    # Seconds that a call may need to end after its test.
    GRACE = 5

    def after_teardown
      super
      return unless defined?(NeverBlock::Pools)
      began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      sleep 0.001 until (busy = IdlePools.busy).empty? || Patience.over?(began, GRACE)
      assert_empty busy, "the test has left calls on thread pools"
    end

    # @return [Hash{Symbol=>Hash}] statistics of the pools that are busy
    def self.busy = NeverBlock::Pools.stats.reject { |_, pool| pool[:threads] == pool[:idle] && pool[:queued].zero? }
  end
end

Minitest::Test.prepend(NeverBlockTest::IdlePools)
