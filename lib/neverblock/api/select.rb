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
  # Exactly one source wins, at random if several are ready. The other sources lose no item, also if the
  # select is cancelled or its time limit passes: items stay in their queues, in order, and other
  # waiters of those queues are woken.
  #
  # The value is an item of a queue (nil once it is closed and empty), the value of a task, thread or promise, or the
  # readable descriptor. The block form names its cases, and has more of them: room in a queue, a writable descriptor, a
  # timer; see {Select}. The winner's block is called after the decision, and its value is returned.
  #
  # Outside a loop, the function starts one for its wait.
  #
  # @param sources [Array<Thread::Queue, Thread::SizedQueue, Task, Promise, Thread, IO, #to_io>]
  # @param timeout [Numeric, nil] seconds; nil waits for ever, 0 does not wait
  # @yieldparam on [Select]
  # @return [Array(Object, Object), Object, nil] the source and its value. In the block form, the value of the winner's
  #   block, or the winner's value without one. nil after the timeout
  # @raise [Exception] the error of a task, thread or promise
  # @raise [ClosedQueueError] if a queue to push to is closed
  # @raise [IOError] if a descriptor is closed
  def self.select(*sources, timeout: nil)
    if block_given? && !sources.empty?
      raise ArgumentError, "select: give the sources as arguments or in the block, not both"
    end
    selection = Select.new(timeout:)
    sources.each { |source| selection.add_source(source) }
    yield selection if block_given?
    source, value, block = selection.call
    return [source, value] unless block_given? || source.nil?
    block ? block.call(value) : value
  end
end
