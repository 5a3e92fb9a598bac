# frozen_string_literal: true

module NeverBlock
  # A bounded pool of Ruby threads for what blocks inside C and knows no scheduler. The asking fiber parks.
  #
  #   ThreadPool.shared.call { image.resize(50) }
  #
  # Threads start when they are needed and leave after some idle seconds. An idle one does not count as somebody who
  # could still wake a parked task (see {Scheduler.alone?}).
  # @api private
  class ThreadPool
    IDLE_SECONDS = 5

    # One call that a thread does for a fiber. Nobody waits for it any more once it is left.
    Job = Struct.new(:block, :fiber, :scheduler, :storage, :thread, :result, :error, :done, :left)
    private_constant :Job

    # Ends an operation of core's whose caller is being cancelled.
    class Abort < Exception; end # standard:disable Lint/InheritException
    private_constant :Abort

    # @return [ThreadPool] this Ractor's, for `offload` and the blocking operations of core
    # @raise [ConfigurationError] if NEVERBLOCK_THREADS is no positive number
    def self.shared = Ractor.current[:neverblock_thread_pool] ||= new(limit: configured_limit)

    def self.configured_limit
      number = ENV.fetch("NEVERBLOCK_THREADS", "16")
      Integer(number, exception: false)&.then { |limit| return limit if limit.positive? }
      raise ConfigurationError, "NEVERBLOCK_THREADS=#{number}: give a positive number of threads, or none for 16"
    end
    private_class_method :configured_limit

    # @return [Boolean] whether the thread is one of ours with nothing to do
    def self.idle?(thread) = thread.instance_variable_get(:@neverblock_idle) == true

    # Marks a helper thread that can wake nobody by itself.
    def self.mark_idle(thread, idle)
      thread.instance_variable_set(:@neverblock_idle, idle)
    end

    # @param limit [Integer] threads at most; further calls queue
    def initialize(limit:)
      @limit = Options.positive("limit", limit)
      @queue = Thread::Queue.new
      @threads = 0
      @idle = 0
      @lock = Thread::Mutex.new
      @pid = Process.pid
    end

    # Runs the block on a thread and parks the calling fiber meanwhile; outside a loop runs it in place.
    # @param abandon [Boolean] whether a cancelled caller leaves at once, and the thread ends the call for nobody;
    #   else the call is interrupted, and the caller leaves when it has ended
    # @return [Object] the block's value
    # @raise [Exception] what the block raised
    def call(abandon: true, &block)
      scheduler = Scheduler.current
      return yield unless scheduler
      after_fork if @pid != Process.pid
      job = Job.new(block, Fiber.current, scheduler, Fiber.current.storage)
      scheduler.adjust_jobs(1) # somebody works for this loop: it is in no deadlock
      begin
        @queue << job
        add_thread
        abandon ? park(job) : park_until_done(job)
      ensure
        job.left = true
        scheduler.adjust_jobs(-1)
      end
      job.error ? raise(job.error) : job.result
    end

    private

    def park(job)
      job.scheduler.block(job, nil) until job.done
    end

    # Core's operations live on the caller's stack: it can't leave before they have ended.
    def park_until_done(job)
      park(job)
    ensure
      unless job.done
        interrupt(job)
        park_until_done(job)
      end
    end

    def interrupt(job)
      @lock.synchronize do
        job.left = true
        job.thread&.raise(Abort) unless job.done
      end
    end

    def add_thread
      wanted = @lock.synchronize { @idle < @queue.size && @threads < @limit && (@threads += 1) }
      Thread.new { work }.name = "neverblock offload" if wanted
    end

    def work
      Thread.handle_interrupt(Abort => :never) do
        while (job = next_job)
          perform(job)
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

    def perform(job)
      @lock.synchronize { job.thread = Thread.current }
      job.error = ThreadError.new("the thread of this offloaded call was killed")
      unless job.left
        job.result = run(job)
        job.error = nil
      end
    rescue Exception => error # standard:disable Lint/RescueException -- raised again in the fiber that asked
      job.error = error
    ensure
      @lock.synchronize { job.done = true }
      drop_abort
      job.scheduler.unblock(job, job.fiber)
    end

    # In a fiber of its own: one job's state is not the next one's, and Fiber[] is that of the asking fiber.
    def run(job)
      Fiber.new(blocking: true, storage: job.storage) {
        Thread.handle_interrupt(Abort => :immediate) { job.block.call }
      }.resume
    end

    # One that came when the job had just ended is not for the next one.
    def drop_abort
      Thread.handle_interrupt(Abort => :immediate) { Thread.pass } if Thread.pending_interrupt?
    rescue Abort
      nil
    end

    def after_fork
      @pid = Process.pid
      @queue = Thread::Queue.new
      @threads = @idle = 0
      @lock = Thread::Mutex.new
    end
  end
end
