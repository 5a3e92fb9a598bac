# frozen_string_literal: true

module NeverBlock
  # Runs the block for at most so long, and goes on after it when the time is up, without an error.
  #
  #   best = nil
  #   NeverBlock.move_on_after(0.5) do
  #     each_improvement { |found| best = found }
  #   end
  #   best   # the best that was found within half a second
  #
  # The block is unwound as by {timeout}: at its next wait, whatever is rescued inside. Only its own time ends it so: a
  # Timeout::Error that the block raises, and the deadline of a timeout around it, pass through.
  #
  # @param seconds [Numeric, nil] nil: no limit; 0: until the block's first wait
  # @yieldparam limit [CancelScope] tells afterwards whether the time was up
  # @return [Object, nil] the block's value; nil if the time was up
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
        own = error # the block's own: a client's read timeout, say
        raise
      end
    rescue TimeoutError => error
      raise if error.equal?(own)
      limit.expire
    end
  end
end
