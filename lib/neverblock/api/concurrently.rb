# frozen_string_literal: true

module NeverBlock
  # Calls the block for each item, at most `limit` at a time. Returns the values in the items' order.
  #
  #   bodies = NeverBlock.concurrently(urls, limit: 10) { |url| Net::HTTP.get(URI(url)) }
  #
  # The enum is read as places become free; it may be long, slow or lazy. The first error cancels the rest and is
  # raised, with further errors in `#errors`. Outside a loop, the function starts one.
  #
  # @param enum [#each] the items
  # @param limit [Integer] the number of calls at a time
  # @return [Array] the block's values
  # @raise [Exception] the first error, extended with {Failure}
  # @raise [Cancelled] if the task of an item was cancelled
  def self.concurrently(enum, limit: 50, &block)
    raise ArgumentError, "NeverBlock.concurrently needs a block" unless block
    unless enum.respond_to?(:each)
      raise ArgumentError, "concurrently: the enum must respond to each, got #{enum.inspect}"
    end
    Options.positive("limit", limit)
    results = []
    index = -1
    ended = 0
    run do |scope|
      places = Semaphore.new(limit)
      enum.each do |*item|
        places.acquire
        one = proc do |at, arguments|
          results[at] = block.call(*arguments)
          ended += 1
        ensure
          places.release
        end
        scope.start(one, [index += 1, item], nil, origin: block)
      end
    end
    raise Cancelled, "concurrently: the task of an item was cancelled" if ended <= index
    results
  end
end
