# frozen_string_literal: true

module NeverBlock
  # Waits for the first of several sources: queues, tasks, promises, threads, descriptors, timers (Go's `select`).
  #
  #   source, value = NeverBlock.select(inbox, task, socket, timeout: 0.5)
  #   case source
  #   when nil then puts "nothing for half a second"
  #   when inbox then handle(value)
  #   end
  #
  # Exactly one source wins, at random where several are ready. Nothing is taken from the others, also where the select is
  # cancelled or its time is up: their items stay in their queues, in order, and others who wait there are woken for them.
  #
  # The value is a queue's item (nil once it is closed and empty), a task's, thread's or promise's value, or the descriptor,
  # which is then readable. With a block the cases are named, see {Select}: also room in a queue, writing, and timers. The
  # winner's block is called then, when all is decided, and its value is returned.
  #
  # Outside a loop it runs one while it waits.
  #
  # @param sources [Array<Thread::Queue, Thread::SizedQueue, Task, Promise, Thread, IO, #to_io>]
  # @param timeout [Numeric, nil] seconds; nil waits for ever, 0 does not wait
  # @yieldparam on [Select]
  # @return [Array(Object, Object), Object, nil] the source and its value; with a block the value of the winner's block, or
  #   the winner's value if it has none; nil after the timeout
  # @raise [Exception] what a task, thread or promise failed with
  # @raise [ClosedQueueError] if a queue to push to is closed
  # @raise [IOError] if a descriptor is closed
  def self.select(*sources, timeout: nil)
    raise ArgumentError, "select takes its sources as arguments or from its block, not both" if block_given? && !sources.empty?
    selection = Select.new(timeout:)
    sources.each { |source| selection.add_source(source) }
    yield selection if block_given?
    source, value, block = selection.call
    return [source, value] unless block_given? || source.nil?
    block ? block.call(value) : value
  end
end
