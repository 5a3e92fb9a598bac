# frozen_string_literal: true

module NeverBlock
  # Yields the values of tasks, promises, threads and callables in the order of their completion.
  #
  #   asking = urls.lazy.map { |url| -> { Net::HTTP.get(URI(url)) } }
  #   NeverBlock.as_completed(asking, limit: 10) { |body| puts body }
  #
  # Each callable runs in its own task, at most `limit` at a time. Its place stays taken until its value has been
  # yielded, so a slow block doesn't let values pile up. The enum is read in its own task, as places become free; it may
  # be long, slow or lazy. A task, promise or thread is only waited for, and takes no place.
  #
  # The first error cancels the callables' tasks and is raised. Inside a loop, `break` cancels them too. Given tasks and
  # threads continue. Outside a loop, the function starts one.
  #
  # @param enum [#each] tasks, promises, threads, and objects that respond to call
  # @param limit [Integer] the number of callables at a time
  # @yieldparam value [Object]
  # @yieldparam source [Task, Promise, Thread, #call] the item that the value is from
  # @return [Integer] the number of values
  # @raise [Exception] the first error of an item, the enum or the block, extended with {Failure}
  # @raise [Cancelled] if the task of an item was cancelled
  def self.as_completed(enum, limit: 50, &block)
    raise ArgumentError, "NeverBlock.as_completed needs a block" unless block
    unless enum.respond_to?(:each)
      raise ArgumentError, "as_completed: the enum must respond to each, got #{enum.inspect}"
    end
    Options.positive("limit", limit)
    count = 0
    run(exit: :cancel) do |scope|
      outcomes = Thread::Queue.new
      places = Semaphore.new(limit)
      scope.spawn(name: "as_completed") { start_all(enum, places, outcomes) }
      while (value, source = outcomes.pop)
        raise Cancelled, "as_completed: the task of an item was cancelled" unless source
        yield value, source
        places.release unless awaited?(source)
        count += 1
      end
    end
    count
  end

  # Starts the items of the enum. Closes the outcomes when every item has one.
  def self.start_all(enum, places, outcomes)
    run do |scope|
      enum.each do |item|
        awaited = awaited?(item)
        unless awaited || item.respond_to?(:call)
          raise ArgumentError,
            "as_completed: an item must be a task, promise, thread or callable, got #{item.inspect}. Give -> { ... }"
        end
        places.acquire unless awaited
        work = proc do
          outcome = [awaited ? item.value : item.call, item]
        ensure
          outcomes << (outcome || []) # empty after a failure, which the scope reports, or a cancellation
        end
        scope.start(work, [], nil, origin: (item if Proc === item))
      end
    end
  ensure
    outcomes.close
  end

  # Whether the value of the item arrives without a call.
  def self.awaited?(item) = [Task, Promise, Thread].any? { |kind| kind === item }
  private_class_method :start_all, :awaited?
end
