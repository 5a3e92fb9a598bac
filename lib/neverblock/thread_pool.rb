# frozen_string_literal: true

module NeverBlock
  # A bounded pool of Ruby threads for calls that block inside C and know no scheduler. The asking fiber parks.
  #
  #   ThreadPool.offload.call { image.resize(50) }
  #
  # Threads start when they are needed and leave after some idle seconds. An idle one does not count as a thread that
  # could still wake a parked task (see {Scheduler.alone?}). There is one pool for each kind of call, so that core's own
  # operations never wait behind a user's `offload`:
  #
  # | pool       | calls                                         | threads | set by                       |
  # |------------|-----------------------------------------------|---------|------------------------------|
  # | offload    | {NeverBlock.offload}                          | 16      | NEVERBLOCK_THREADS           |
  # | operations | IO.copy_stream between files, Zlib (Ruby 3.4) | 8       | NEVERBLOCK_OPERATION_THREADS |
  # | opens      | opening files, which may be FIFOs (Ruby 3.4)  | 256     | NEVERBLOCK_OPEN_THREADS      |
  #
  # An offload inside an offload belongs to a pool of its own, one for each depth: a call only ever waits for deeper
  # ones, so that nested calls never wait for one another in a circle, whatever the sizes.
  # @api private
  class ThreadPool
    IDLE_SECONDS = 5

    SIZES = {
      offload: ["NEVERBLOCK_THREADS", 16], operations: ["NEVERBLOCK_OPERATION_THREADS", 8], opens: ["NEVERBLOCK_OPEN_THREADS", 256]
    }.each_value(&:freeze).freeze

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
      all[[kind, depth]] ||= new(limit: configured(*SIZES.fetch(kind)), name: depth.zero? ? kind : :"#{kind}_#{depth}", depth:)
    end
    private_class_method :of

    def self.all = Ractor.current[:neverblock_thread_pools] ||= {}
    private_class_method :all
    all # the main Ractor's, before threads could make two

    def self.configured(variable, default)
      number = ENV.fetch(variable, default.to_s)
      Integer(number, exception: false)&.then { |limit| return limit if limit.positive? }
      raise ConfigurationError, "#{variable}=#{number}: must be a positive number of threads; unset, it is #{default}"
    end
    private_class_method :configured

    # @return [Boolean] whether the thread is one of ours with nothing to do
    def self.idle?(thread) = thread.instance_variable_get(:@neverblock_idle) == true

    # Marks a helper thread that can wake no task by itself.
    def self.mark_idle(thread, idle)
      thread.instance_variable_set(:@neverblock_idle, idle)
    end

    # @return [Symbol]
    attr_reader :name

    # @param limit [Integer] threads at most; further calls queue
    # @param name [Symbol] for people
    # @param depth [Integer] of nested offloads
    def initialize(limit:, name: :offload, depth: 0)
      @limit = Options.positive("limit", limit)
      @name = name
      @depth = depth
      @lock = Thread::Mutex.new
      start_afresh
    end

    # Runs the block on a thread and parks the calling fiber meanwhile; outside a loop runs it in place.
    # @param leave [:at_once, :at_end, :interrupted] what becomes of a call that has begun when its caller is cancelled:
    #   it ends by itself and its value is dropped; the caller waits for its end; its blocking system call is interrupted
    #   too. A call that is still queued is withdrawn in all three cases
    # @return [Object] the block's value
    # @raise [Exception] what the block raised
    def call(leave: :at_once, &block)
      scheduler = Scheduler.current
      return yield unless scheduler
      start_afresh if @pid != Process.pid
      job = Job.new(scheduler, leave, @depth + 1, block)
      @queue << job
      add_thread
      job.await
    end

    # @return [Hash{Symbol=>Integer}] :limit, :threads, :idle, :queued
    def stats = {limit: @limit, threads: @threads, idle: @idle, queued: @queue.size}

    private

    # In a forked child the threads are gone.
    def start_afresh
      @pid = Process.pid
      @queue = Thread::Queue.new
      @threads = @idle = 0
      @lock = Thread::Mutex.new
    end

    def add_thread
      wanted = @lock.synchronize { @idle < @queue.size && @threads < @limit && (@threads += 1) }
      Thread.new { work }.name = "neverblock #{@name}" if wanted
    end

    def work
      Thread.handle_interrupt(Job::Interruption => :never) do
        while (job = next_job)
          job.perform
        end
      end
    ensure
      @lock.synchronize { @threads -= 1 }
    end

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
