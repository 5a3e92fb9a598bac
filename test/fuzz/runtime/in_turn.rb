# frozen_string_literal: true

module NeverBlockFuzz
  # Runs programs one after another. The includer has `outcome`.
  #
  #   oracle.each_outcome(plans) { |outcome| puts outcome.failed? }
  module InTurn
    # @param plans [Enumerator]
    # @param ends_at [Float] of the monotonic clock; no program begins after it
    # @yieldparam outcome [Runner::Outcome]
    # @return [void]
    def each_outcome(plans, ends_at = Float::INFINITY)
      plans.each do |plan|
        break if Process.clock_gettime(Process::CLOCK_MONOTONIC) > ends_at
        yield outcome(plan)
      end
    end
  end
end
