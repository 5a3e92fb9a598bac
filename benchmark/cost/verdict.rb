# frozen_string_literal: true

# Our processor time and rate, each so many times the other's, in pairs of one round each.
#
#   verdict = Bench::Cost::Verdict.of(mine, stock)
#   verdict.cpu.to_s      # => "1.02 (1.00–1.04)"
#   verdict.pass?         # => true
require_relative "../bench/ratio"

module Bench
  class Cost
    Verdict = Data.define(:cpu, :rate) do
      # @param mine [Result]
      # @param other [Result] of the same rounds
      # @return [Verdict, nil] nil where one could not be measured
      def self.of(mine, other)
        cpu = Ratio.between(mine, other, "cpu") or return
        new(cpu:, rate: Ratio.between(other, mine, "wall"))
      end

      # @return [Boolean]
      def pass? = cpu.within?(Cost::MOST_CPU) && rate.within?(Cost::LEAST_RATE, least: true)

      # @return [Hash] for JSON
      def to_h = {cpu: cpu.to_h, rate: rate.to_h, pass: pass?}
    end

    MOST_CPU = 1.05 # times the stock pool's processor time
    LEAST_RATE = 1.0 # times its rate
  end
end
