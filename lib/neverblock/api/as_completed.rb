# frozen_string_literal: true

module NeverBlock
  # Yields the values of tasks, promises, threads and callables in the order in which they end.
  #
  #   asking = urls.lazy.map { |url| -> { Net::HTTP.get(URI(url)) } }
  #   NeverBlock.as_completed(asking, limit: 10) { |body| puts body }
  #
  # A callable is run in a task of its own, at most `limit` at a time. It keeps its place until its value has been yielded,
  # so a slow block lets no values pile up. The enum is read as places become free, in a task of its own; it may be long,
  # slow, or made on the way. A task, promise or thread is only waited for, and takes no place.
  #
  # The first error cancels the callables' tasks and is raised. Inside a loop `break` cancels them too. Tasks and threads that
  # were given go on. Outside a loop it runs one.
  #
  # @param enum [#each] tasks, promises, threads, and whatever can be called
  # @param limit [Integer] how many callables at a time
  # @yieldparam value [Object]
  # @yieldparam source [Task, Promise, Thread, #call] the item whose value it is
  # @return [Integer] how many values there were
  # @raise [Exception] the first error of an item, the enum or the block, extended with {Failure}
  # @raise [Cancelled] if the task of an item was cancelled
  def self.as_completed(enum, limit: 50, &block)
    raise ArgumentError, "NeverBlock.as_completed needs a block" unless block
    raise ArgumentError, "as_completed: #{enum.class} has no each" unless enum.respond_to?(:each)
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

  # Reads the enum, and closes the outcomes when all items have one.
  def self.start_all(enum, places, outcomes)
    run do |scope|
      enum.each do |item|
        awaited = awaited?(item)
        raise ArgumentError, "as_completed: #{item.inspect} is no task, promise or thread, and can't be called: give -> { ... }" unless awaited || item.respond_to?(:call)
        places.acquire unless awaited
        work = proc do
          outcome = [awaited ? item.value : item.call, item]
        ensure
          outcomes << (outcome || []) # empty: it failed, which its scope tells, or was cancelled
        end
        scope.start(work, [], nil, origin: (item if Proc === item))
      end
    end
  ensure
    outcomes.close
  end

  # Whether its value comes by itself.
  def self.awaited?(item) = [Task, Promise, Thread].any? { |kind| kind === item }
  private_class_method :start_all, :awaited?
end
