# frozen_string_literal: true

module NeverBlock
  # A bounded pool of Ruby threads, for calls that block inside C without asking a scheduler. The calling fiber parks.
  #
  #   ThreadPool.offload.call { image.resize(50) }
  #
  # Threads start on demand and end after some idle seconds. An idle thread doesn't count as a possible waker of a
  # parked task (see {OtherThreads}). Each kind of call has its own pool; see {Pools}.
  #
  # In an endless pool a call may wait for another call, such as the two ends of a FIFO. A call that has queued for a
  # moment gets a thread beyond the limit.
  #
  # Nested offloads use one pool per depth. A call waits for deeper calls only, so nested calls can't wait for one
  # another in a circle, whatever the sizes.
  #
  # `thread_pool/job.rb` is one call.
  # @api private
  class ThreadPool
    IDLE_SECONDS = 5
    PATIENCE = 0.05 # seconds that a call of an endless pool queues before the pool grows

    # @return [ThreadPool] for `offload` at the caller's depth
    def self.offload = of(:offload, Fiber[:neverblock_offload_depth] || 0)

    # @return [ThreadPool] for core's operations
    def self.operations = of(:operations)

    # @return [ThreadPool] for opening files
    def self.opens = of(:opens)

    # @return [Hash{Symbol=>Hash}] the statistics of this Ractor's pools, by name
    def self.stats = all.values.to_h { |pool| [pool.name, pool.stats] }

    # @raise [ConfigurationError] if the pool's variable is not a positive number
    def self.of(kind, depth = 0)
      all[[kind, depth]] ||= new(limit: Pools.limit(kind), endless: Pools::ALL.fetch(kind).endless?,
        name: depth.zero? ? kind : :"#{kind}_#{depth}", depth:)
    end
    private_class_method :of

    def self.all = Ractor.current[:neverblock_thread_pools] ||= {}
    private_class_method :all
    all # creates the main Ractor's table now, before two threads could each create one

    # @return [Boolean] whether the thread is an idle thread of a pool
    def self.idle?(thread) = thread.instance_variable_get(:@neverblock_idle) == true

    # Marks a helper thread, which wakes no task by itself.
    def self.mark_idle(thread, idle)
      thread.instance_variable_set(:@neverblock_idle, idle)
    end

    # Starts a helper thread. It is idle before it runs for the first time, or a virtual clock would wait for its start.
    # @param name [String]
    # @return [Thread]
    def self.start_idle(name, &)
      thread = Thread.new(&)
      thread.name = name
      mark_idle(thread, true) unless thread.instance_variable_defined?(:@neverblock_idle)
      thread
    end

    # @return [Symbol]
    attr_reader :name

    # @param limit [Integer] maximum number of threads; further calls queue
    # @param endless [Boolean] whether the calls may never end
    # @param name [Symbol] shown in thread names and statistics
    # @param depth [Integer] the depth of nested offloads
    def initialize(limit:, endless: false, name: :offload, depth: 0)
      @limit = Options.positive("limit", limit)
      @endless = endless
      @name = name
      @depth = depth
      @lock = Thread::Mutex.new
      start_afresh
    end

    # Runs the block on a thread while the calling fiber parks. Outside a loop it runs in place.
    # @param leave [:at_once, :at_end, :interrupted] the treatment of a running call whose caller is cancelled.
    #   :at_once - the caller leaves, the call ends by itself and its value is dropped; :at_end - the caller
    #   waits for the call's end; :interrupted - the same, and the call's blocking system call is interrupted. A
    #   queued call is always withdrawn
    # @return [Object] the block's value
    # @raise [Exception] the block's exception
    def call(leave: :at_once, &block)
      scheduler = Scheduler.current
      return yield unless scheduler
      start_afresh if @pid != Process.pid
      job = Job.new(scheduler, leave, @depth + 1, block)
      job.await { enqueue(job) }
    end

    # @return [Hash{Symbol=>Integer}] :limit, :threads, :idle, :queued
    def stats
      start_afresh if @pid != Process.pid
      {limit: @limit, threads: @threads, idle: @idle, queued: @queue.size}
    end

    private

    # Resets the pool at its first use, and in a forked child, where its threads don't exist.
    def start_afresh
      @pid = Process.pid
      @queue = Thread::Queue.new
      @threads = @idle = 0
      @growing = false
      @lock = Thread::Mutex.new
    end

    # The block is uninterruptible: a job without a thread would wait for ever.
    def enqueue(job)
      Scheduler.uninterrupted do
        @queue << job
        add_thread
        add_grower if @endless
      end
    end

    # Starts a thread if needed. If the system refuses, the running threads do all the work.
    def add_thread
      return unless @lock.synchronize { @idle < @queue.size && @threads < @limit && (@threads += 1) }
      start_thread
    rescue ThreadError
      raise if @lock.synchronize { @threads.zero? }
    end

    # @threads has it already.
    def start_thread
      thread = ThreadPool.start_idle("neverblock #{@name}") { work }
    ensure
      @lock.synchronize { @threads -= 1 } unless thread # whatever the reason
    end

    # Starts the thread that grows an endless pool while calls queue.
    def add_grower
      start_grower if @lock.synchronize { !@growing && @queue.size > @idle && @threads >= @limit && (@growing = true) }
    rescue ThreadError
      nil # the system refuses another thread
    end

    def start_grower
      thread = ThreadPool.start_idle("neverblock #{@name}, growing") do
        Thread.handle_interrupt(Object => :immediate) { grow }
      end
    ensure
      @growing = false unless thread
    end

    def grow
      ended = false
      until ended
        sleep PATIENCE
        ended = !@lock.synchronize { (@growing = !@queue.empty?) && (@threads += 1) }
        start_thread unless ended
      end
    rescue ThreadError
      nil # the system refuses another thread
    ensure
      @growing = false unless ended
    end

    # Performs jobs until the thread has been idle for long enough. The masks of the thread that started it are reset.
    def work
      left = false
      Thread.handle_interrupt(Object => :immediate, Job::Interruption => :never) do
        until left
          job = next_job
          job ? job.perform : left = leave?
        end
      end
    ensure
      killed unless left
    end

    # Replaces a thread that was killed by its call or from outside. At the program's end no replacement starts.
    def killed
      @lock.synchronize { @threads -= 1 }
      add_thread if Thread.main.alive?
    end

    # False if a job arrived at the end of the idle time.
    def leave? = @lock.synchronize { @queue.empty? && (@threads -= 1) && true }

    def next_job
      ThreadPool.mark_idle(Thread.current, true)
      @idle += 1
      @queue.pop(timeout: IDLE_SECONDS)
    ensure
      @idle -= 1
      ThreadPool.mark_idle(Thread.current, false)
    end
  end
end

require_relative "thread_pool/job"
