# frozen_string_literal: true

module NeverBlock
  # {timeout} with a deadline instead of a length; for a budget that several steps share.
  #
  #   deadline = NeverBlock::Clock.now + 5
  #   NeverBlock.timeout_at(deadline) { connect }
  #   NeverBlock.timeout_at(deadline) { ask }
  #
  # @param at [Numeric, nil] seconds on the monotonic clock; nil: no limit
  # @return [Object] the block's value
  # @raise [ArgumentError] unless `at` is such a number; a Time and Time.now.to_f + 5 are refused
  # @raise [TimeoutError] at the deadline. If it has passed before the call, the block doesn't begin
  def self.timeout_at(at, &block)
    raise ArgumentError, "NeverBlock.timeout_at needs a block" unless block
    return yield if at.nil?
    unless at.is_a?(Numeric) && at.real? && (at <=> 0) && !time_of_day?(at) # NaN compares with nothing
      raise ArgumentError,
        "timeout_at: must be a number of seconds on the monotonic clock, or nil for no limit, got #{at.inspect}. " \
        "Give NeverBlock::Clock.now + 5"
    end
    left = at - Clock.now
    raise TimeoutError, "the deadline passed #{format("%.3g", -left)} s before the block began" unless left.positive?
    expire_after(left, "the deadline has passed") { yield }
  end

  # Detects Time.now.to_f + 5, which would be a limit of decades: years ahead on the monotonic clock, and
  # about now on the real-time one.
  def self.time_of_day?(at)
    years = 1e8
    at - Clock.now > years &&
      (at - Clock.wall).abs < years
  end
  private_class_method :time_of_day?
end
