# frozen_string_literal: true

module NeverBlock
  # The object that {NeverBlock.move_on_after} yields. It tells whether the time limit has passed.
  #
  #   NeverBlock.move_on_after(2) do |limit|
  #     limit.left       # => 1.99, seconds
  #     limit.expired?   # => false; true after the limit has unwound the block
  #   end
  class CancelScope
    # @return [Float, nil] seconds on the monotonic clock; nil without a limit
    attr_reader :deadline

    # @api private
    # @param seconds [Numeric, nil]
    def initialize(seconds)
      @deadline = Clock.now + seconds if seconds
      @expired = false
    end

    # @return [Boolean] whether the limit has passed and the block was unwound
    def expired? = @expired

    # @return [Float, nil] seconds until the deadline, 0.0 after it; nil without a limit
    def left = @deadline && (@deadline - Clock.now).clamp(0.0..)

    # @return [String]
    def inspect
      state = if expired? then "expired"
      else @deadline ? format("%.3gs left", left) : "no limit"
      end
      "#<NeverBlock::CancelScope #{state}>"
    end

    # @api private
    # @return [nil]
    def expire
      @expired = true
      nil
    end
  end
end
