# frozen_string_literal: true

module NeverBlock
  # A bounded pool of Ruby threads for calls that block inside C and know no scheduler. The asking fiber parks.
  #
  #   ThreadPool.offload.call { image.resize(50) }
  #
  # Threads start when they are needed and leave after some idle seconds. An idle one does not count as a thread that
  # could still wake a parked task (see {OtherThreads}). There is one pool for each kind of call:
  # see {Pools}.
  #
  # In an endless pool one call may wait for what another will do: the other end of a FIFO, for example. One that has queued
  # for a moment gets a thread beyond the limit.
  #
  # An offload inside an offload belongs to a pool of its own, one for each depth: a call only ever waits for deeper
  # ones, so that nested calls never wait for one another in a circle, whatever the sizes.
  # @api private
  class ThreadPool
    IDLE_SECONDS = 5
    PATIENCE = 0.05 # seconds for which a call of an endless pool queues

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
      all[[kind, depth]] ||= new(limit: Pools.limit(kind), endless: Pools::ALL.fetch(kind).endless?, name: depth.zero? ? kind : :"#{kind}_#{depth}", depth:)
    end
    private_class_method :of

    def self.all = Ractor.current[:neverblock_thread_pools] ||= {}
    private_class_method :all
    all # the main Ractor's, before threads could make two

    # @return [Boolean] whether the thread is one of ours with nothing to do
    def self.idle?(thread) = thread.instance_variable_get(:@neverblock_idle) == true

    # Marks a helper thread that can wake no task by itself.
    def self.mark_idle(thread, idle)
      thread.instance_variable_set(:@neverblock_idle, idle)
    end

    # @return [Symbol]
    attr_reader :name

    # @param limit [Integer] threads at most; further calls queue
    # @param endless [Boolean] whether its calls may never end
    # @param name [Symbol] for people
    # @param depth [Integer] of nested offloads
    def initialize(limit:, endless: false, name: :offload, depth: 0)
      @limit = Options.positive("limit", limit)
      @endless = endless
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
      job.await { enqueue(job) }
    end

    # @return [Hash{Symbol=>Integer}] :limit, :threads, :idle, :queued
    def stats = {limit: @limit, threads: @threads, idle: @idle, queued: @queue.size}

    private

    # In a forked child the threads are gone.
    def start_afresh
      @pid = Process.pid
      @queue = Thread::Queue.new
      @threads = @idle = 0
      @growing = false
      @lock = Thread::Mutex.new
    end

    # Whole, whatever Thread#raise does: a job without a thread would wait for ever.
    def enqueue(job)
      Scheduler.uninterrupted do
        @queue << job
        add_thread
        add_grower if @endless
      end
    end

    # Where the system allows no further thread, those that run do all the work.
    def add_thread
      return unless @lock.synchronize { @idle < @queue.size && @threads < @limit && (@threads += 1) }
      Thread.new { work }.name = "neverblock #{@name}"
    rescue ThreadError
      raise if @lock.synchronize { @threads -= 1 }.zero?
    end

    # A thread that looks after what queues, as long as something does.
    def add_grower
      return unless @lock.synchronize { !@growing && @queue.size > @idle && @threads >= @limit && (@growing = true) }
      Thread.new { Thread.handle_interrupt(Object => :immediate) { grow } }.name = "neverblock #{@name}, growing"
    rescue ThreadError # no further thread is to be had at all
      @growing = false
    end

    def grow
      ThreadPool.mark_idle(Thread.current, true)
      loop do
        sleep PATIENCE
        break unless @lock.synchronize { (@growing = !@queue.empty?) && (@threads += 1) }
        Thread.new { work }.name = "neverblock #{@name}"
      end
    rescue ThreadError # no further thread is to be had
      @lock.synchronize do
        @threads -= 1
        @growing = false
      end
    end

    # The caller's masks are no business of its threads.
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

    # By its call, or from outside: another thread does what is queued. At the program's end, which kills all, nobody does.
    def killed
      @lock.synchronize { @threads -= 1 }
      add_thread if Thread.main.alive?
    end

    # Unless a job came when the thread had waited long enough.
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
