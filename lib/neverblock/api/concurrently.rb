# frozen_string_literal: true

module NeverBlock
  # Calls the block for each item, at most `limit` at a time, and returns the results in the items' order.
  #
  #   bodies = NeverBlock.concurrently(urls, limit: 10) { |url| Net::HTTP.get(URI(url)) }
  #
  # The enum is read as places become free, so it may be long, slow, or made on the way. The first error cancels the
  # rest and is raised, with the others in `#errors`. Outside a loop it runs one.
  #
  # @param enum [#each] the items
  # @param limit [Integer] how many at a time
  # @return [Array] the block's values
  # @raise [Exception] the first error, extended with {Failure}
  # @raise [Cancelled] if an item's task was cancelled by itself
  def self.concurrently(enum, limit: 50, &block)
    raise ArgumentError, "NeverBlock.concurrently needs a block" unless block
    raise ArgumentError, "concurrently: #{enum.class} has no each" unless enum.respond_to?(:each)
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
