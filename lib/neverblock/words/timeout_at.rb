# frozen_string_literal: true

module NeverBlock
  # {timeout} with a point in time instead of a length: for a budget that several steps share.
  #
  #   deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 5
  #   NeverBlock.timeout_at(deadline) { connect }
  #   NeverBlock.timeout_at(deadline) { ask }
  #
  # @param at [Numeric, nil] seconds of the monotonic clock; nil: no limit
  # @return [Object] the block's value
  # @raise [TimeoutError] also where the time has come before the block begins, which then does not
  def self.timeout_at(at, &block)
    raise ArgumentError, "NeverBlock.timeout_at needs a block" unless block
    return yield if at.nil?
    unless at.is_a?(Numeric) && at.real? && (at <=> 0) # NaN compares with nothing
      raise ArgumentError, "timeout_at: #{at.inspect} is no number of seconds of the monotonic clock. " \
        "Give Process.clock_gettime(Process::CLOCK_MONOTONIC) + 5, or nil for no limit"
    end
    return yield if at.infinite?&.positive?
    left = at - Process.clock_gettime(Process::CLOCK_MONOTONIC)
    raise TimeoutError, "the deadline passed #{format("%.3g", -left)} s before the block began" unless left.positive?
    expire_after(left, "the deadline has passed") { yield }
  end
end
