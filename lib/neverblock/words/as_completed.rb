# frozen_string_literal: true

module NeverBlock
  # Yields the values of tasks and callables in the order in which they end.
  #
  #   asking = urls.lazy.map { |url| -> { Net::HTTP.get(URI(url)) } }
  #   NeverBlock.as_completed(asking, limit: 10) { |body| puts body }
  #
  # A callable is run in a task of its own, at most `limit` at a time. It keeps its place until its value has been yielded,
  # so a slow block lets no values pile up. The enum is read as places become free, in a task of its own; it may be long,
  # slow, or made on the way. A task is only waited for, and takes no place.
  #
  # The first error cancels the callables' tasks and is raised. Inside a loop `break` cancels them too. Tasks that were given
  # go on. Outside a loop it runs one.
  #
  # @param enum [#each] tasks, and whatever can be called
  # @param limit [Integer] how many callables at a time
  # @yieldparam value [Object]
  # @yieldparam source [Task, #call] the item whose value it is
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
        places.release unless Task === source
        count += 1
      end
    end
    count
  end

  # Reads the enum, and closes the outcomes when all items have one.
  def self.start_all(enum, places, outcomes)
    run do |scope|
      enum.each do |item|
        raise ArgumentError, "as_completed: #{item.inspect} is no task and can't be called" unless Task === item || item.respond_to?(:call)
        places.acquire unless Task === item
        work = proc do
          outcome = [(Task === item) ? item.value : item.call, item]
        ensure
          outcomes << (outcome || []) # empty: it failed, which its scope tells, or was cancelled
        end
        scope.start(work, [], nil, origin: (item if Proc === item))
      end
    end
  ensure
    outcomes.close
  end
  private_class_method :start_all
end
