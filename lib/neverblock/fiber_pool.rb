# frozen_string_literal: true

module NeverBlock
  # At most so many tasks at a time; the rest queue. The founding word of 2008.
  #
  #   NeverBlock.run do
  #     pool = NB::FiberPool.new(20)
  #     100.times { |i| pool.spawn { fetch(i) } }
  #     pool.drain        # or let the end of run wait
  #   end
  #
  # Outside a loop its blocks run at once, one after another, as stock Ruby would run them.
  class FiberPool
    # @return [Integer] how many run at a time
    attr_reader :size

    # @param size [Integer]
    # @raise [ArgumentError] if it is no positive Integer
    def initialize(size = 50)
      @size = Options.positive("size", size)
      @queue = {}.compare_by_identity # an ordered set: a queued task may be cancelled
      @drains = []
      @running = @finished = @failed = 0
    end

    # Runs the block in a task as soon as there is room.
    # @param arguments [Array] passed to the block
    # @param name [String, nil] for people
    # @return [Task]
    def spawn(*arguments, name: nil, &block)
      raise ArgumentError, "FiberPool#spawn needs a block" unless block
      caller = Task.current if Scheduler.current
      return Task.finished(block, name, block.call(*arguments)) unless caller
      task = Scope.around(caller).start(block, arguments, name).hold(self)
      @queue[task] = true if task.alive?
      fill
      task
    end

    # Waits until the queue is empty and nothing runs.
    # @param limit [Numeric, nil] seconds at most
    # @return [self, nil] nil after the limit
    def drain(limit = nil)
      Options.seconds("limit", limit)
      return self if idle?
      done = Thread::Queue.new
      @drains << done
      done.pop(timeout: limit) && self
    ensure
      @drains.delete(done)
    end

    # @return [Hash{Symbol=>Integer}] :size, :running, :queued, :finished, :failed (of the finished ones)
    def stats = {size: @size, running: @running, queued: @queue.size, finished: @finished, failed: @failed}

    # @return [String]
    def inspect = "#<NeverBlock::FiberPool #{stats.map { |name, count| "#{name} #{count}" }.join(", ")}>"

    # @api private
    # Called by each task at its end, also by one that was cancelled in the queue.
    def task_finished(task, _waited_for)
      @running -= 1 unless @queue.delete(task)
      @finished += 1
      @failed += 1 if task.state == :failed
      fill
      @drains.each { |done| done << true } if idle?
    end

    private

    def idle? = @running.zero? && @queue.empty?

    def fill
      while @running < @size && !@queue.empty?
        task, _ = @queue.shift
        @running += 1
        task.release
      end
    end
  end
end
