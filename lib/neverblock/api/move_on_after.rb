# frozen_string_literal: true

module NeverBlock
  # Runs the block with a time limit. After the limit, execution continues behind the block, without an error.
  #
  #   best = nil
  #   NeverBlock.move_on_after(0.5) do
  #     each_improvement { |found| best = found }
  #   end
  #   best   # the best one found within half a second
  #
  # The block is unwound as by {timeout}: at its next wait, whatever is rescued inside. Only the block's own limit does
  # that. A Timeout::Error that the block raises passes through, and so does the deadline of an outer timeout.
  #
  # @param seconds [Numeric, nil] nil: no limit; 0: until the block's first wait
  # @yieldparam limit [CancelScope] tells afterwards whether the limit has passed
  # @return [Object, nil] the block's value; nil after the limit
  def self.move_on_after(seconds)
    raise ArgumentError, "NeverBlock.move_on_after needs a block" unless block_given?
    Options.seconds("move_on_after", seconds)
    seconds = nil if seconds&.infinite?
    limit = CancelScope.new(seconds)
    return yield(limit) unless seconds
    own = nil
    begin
      expire_after(seconds.zero? ? 1e-9 : seconds, "execution expired after #{seconds} s") do
        yield limit
      rescue Timeout::Error => error
        own = error # raised by the block itself, such as a client's read timeout
        raise
      end
    rescue TimeoutError => error
      raise if error.equal?(own)
      limit.expire
    end
  end
end
