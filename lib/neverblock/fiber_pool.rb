# frozen_string_literal: true

module NeverBlock
  # Runs a limited number of tasks at once; further ones queue. The class dates from NeverBlock of 2008.
  #
  #   NeverBlock.run do
  #     pool = NB::FiberPool.new(20)
  #     100.times { |i| pool.spawn { fetch(i) } }
  #     pool.drain        # optional: run waits for all tasks too
  #   end
  #
  # Outside a loop the blocks run at once, one after another. In a forked child the pool is as new: the parent's tasks
  # don't exist there.
  class FiberPool
    # @return [Integer] the maximum number of running tasks
    attr_reader :size

    # @param size [Integer]
    # @raise [ArgumentError] unless the size is a positive Integer
    def initialize(size = 50)
      @size = Options.positive("size", size)
      start_afresh
    end

    # Runs the block in a task once fewer than {#size} tasks run.
    # @param arguments [Array] passed to the block
    # @param name [String, nil] shown by `inspect`, {NeverBlock.tasks} and {NeverBlock.dump}
    # @return [Task]
    def spawn(*arguments, name: nil, &block)
      raise ArgumentError, "FiberPool#spawn needs a block" unless block
      caller = Task.current if Scheduler.current
      return Task.finished(block, name, block.call(*arguments)) unless caller
      start_afresh unless @process == Process.pid
      task = Scope.around(caller).start(block, arguments, name).hold(self)
      @queue[task] = true if task.alive?
      fill
      task
    end

    # Waits until no task is queued or running.
    # @param limit [Numeric, nil] seconds; nil waits for ever
    # @return [self, nil] nil after the limit
    def drain(limit = nil)
      Options.seconds("limit", limit)
      start_afresh unless @process == Process.pid
      return self if idle?
      done = Thread::Queue.new
      @drains << done
      done.pop(timeout: limit) && self
    ensure
      @drains.delete(done)
    end

    # @return [Hash{Symbol=>Integer}] :size, :running, :queued, :finished, and :failed (a part of the finished)
    def stats
      start_afresh unless @process == Process.pid
      {size: @size, running: @running, queued: @queue.size, finished: @finished, failed: @failed}
    end

    # @return [String]
    def inspect = "#<NeverBlock::FiberPool #{stats.map { |name, count| "#{name} #{count}" }.join(", ")}>"

    # @api private
    # Called by each task at its end, also by a task that was cancelled in the queue.
    def task_finished(task, _waited_for)
      @running -= 1 unless @queue.delete(task)
      @finished += 1
      @failed += 1 if task.state == :failed
      fill
      @drains.each { |done| done << true } if idle?
    end

    private

    def start_afresh
      @process = Process.pid
      @queue = {}.compare_by_identity # an ordered set, because a queued task may be cancelled
      @drains = []
      @running = @finished = @failed = 0
    end

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
