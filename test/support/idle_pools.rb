# frozen_string_literal: true

require_relative "limit"

module NeverBlockTest
  # Fails a test that leaves a call on one of the process's thread pools: that call would take a thread from all later
  # tests.
  #
  #   NB.spawn { NB.offload { gate.pop } }.cancel   # the call goes on: close the gate at the end of the test
  module IdlePools
    def after_teardown
      super
      return if !defined?(NeverBlock::Pools) || failures.any?
      what = -> { "the end of the calls that the test has left on thread pools (#{IdlePools.busy})" }
      NeverBlockTest.wait_until(what) { IdlePools.busy.empty? }
    end

    # @return [Hash{Symbol=>Hash}] statistics of the pools that are busy
    def self.busy = NeverBlock::Pools.stats.reject { |_, pool| pool[:threads] == pool[:idle] && pool[:queued].zero? }
  end
end

Minitest::Test.prepend(NeverBlockTest::IdlePools)
