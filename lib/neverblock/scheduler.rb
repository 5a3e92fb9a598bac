# frozen_string_literal: true

module NeverBlock
  # Ruby's Fiber::Scheduler on the native engine. It works without {NeverBlock.run}, which is the convenient interface:
  #
  #   Thread.new do
  #     Fiber.set_scheduler(NeverBlock::Scheduler.new)
  #     Fiber.schedule { sleep 1 }
  #     Fiber.schedule { sleep 1 }
  #   end.join     # one second: the scheduler ends with its thread
  #
  # Most hooks are in C: ext/neverblock/scheduler/*.c, one file for each kind of wait. This file has those that need no
  # speed. `scheduler/` has their parts:
  #
  #   loops.rb              the registry of schedulers
  #   resolver.rb           look-ups of host names
  #   timeout_watchdog.rb   ends timeouts of code that never waits
  #   other_threads.rb      detects deadlocks: could another thread wake a task?
  #   ways_out.rb           detects deadlocks: could a trap or a timeout wake a task?
  #   caller_masks.rb       masks of Thread.handle_interrupt around a loop
  #   lock_waiters.rb       fibers that wait for a Mutex at the exit of a process
  #   async_remedy.rb       error messages for callers of the gem async
  class Scheduler
    include Resolver

    ENGINES = %w[epoll uring poll].freeze

    # Core's slow operations (Ruby 3.4 and later), by the calling method and its class, and their kinds. Other
    # operations, such as stat, close, mkdir and children, take a fraction of the time of a hand-over to a thread.
    #
    # - :open goes to a thread, because opening a FIFO waits for its other end. The thread is interrupted when its
    #   caller leaves. Patches::Open keeps regular files from asking.
    # - :whole goes to a thread, because the files may have to be read from a disk. Core asks for
    #   copies of 1 MiB or more only.
    # - :step is a step of Zlib. It runs in the loop, with a turn for other fibers, unless Patches::Zlib marks
    #   the whole call as large. An exception between two steps would leave Zlib's stream in a state that
    #   raises Zlib::DataError instead.
    OPERATIONS = {
      open: {"open" => %w[IO File Kernel], "initialize" => %w[IO File], "sysopen" => %w[IO]},
      whole: {"copy_stream" => %w[IO], "copy" => %w[IO::Buffer], "initialize_copy" => %w[IO::Buffer]},
      step: {
        "deflate" => %w[Zlib Zlib::Deflate], "inflate" => %w[Zlib Zlib::Inflate],
        "gzip" => %w[Zlib], "gunzip" => %w[Zlib],
        "finish" => %w[Zlib::ZStream Zlib::GzipFile Zlib::GzipWriter],
        "<<" => %w[Zlib::Deflate Zlib::Inflate Zlib::GzipWriter],
        "close" => %w[Zlib::GzipFile Zlib::GzipWriter], "flush" => %w[Zlib::Deflate Zlib::GzipWriter],
        **%w[write print puts].to_h { |name| [name, %w[Zlib::GzipWriter]] },
        **%w[read readpartial gets each_line readline readlines each_byte].to_h { |name| [name, %w[Zlib::GzipReader]] }
      }
    }.each_with_object({}) { |(kind, callers), table|
      callers.each { |name, classes| (table[name.freeze] ||= {}).merge!(classes.to_h { |path| [path.freeze, kind] }) }
    }.each_value(&:freeze).freeze
    self.operations = OPERATIONS
    private_class_method :operations=
    private_constant :OPERATIONS

    # The scheduler that `run` uses on this thread. It is kept from one run to the next.
    # @api private
    # @return [Scheduler]
    def self.kept
      thread = Thread.current
      kept = thread.instance_variable_get(:@neverblock_scheduler)
      return kept if kept && !kept.closed? && !kept.forked? && !kept.abandoned?
      thread.instance_variable_set(:@neverblock_scheduler, new(kept: true))
    end

    # Seconds that tasks have to end after a second signal has cancelled them by force.
    GRACE = 1
    private_constant :GRACE

    # Ruby bug 19640: Ruby 3.3.0 passes io_write a buffer whose memory may be freed. Without the hook, Ruby
    # writes itself and calls io_wait.
    undef_method :io_write if RUBY_VERSION == "3.3.0"

    # @param engine [String, Symbol, nil] "epoll", "uring" or "poll"; nil chooses the best one of this system
    # @param switches [Integer] the number of fibers that may run in sequence before the loop
    #   polls the kernel and its timers
    # @param kept [Boolean] whether the scheduler belongs to `run`, and so outlives Fiber.set_scheduler(nil)
    # @raise [ConfigurationError] if the engine doesn't exist or this system refuses it
    def initialize(engine: ENV["NEVERBLOCK_ENGINE"], switches: 64, kept: false)
      @kept = kept
      Options.positive("switches", switches)
      engine = engine.to_s.then { |name| name unless name.empty? }
      check_engine(engine)
      Pools.configure
      errno = open_engine(engine)
      refuse(engine, SystemCallError.new(errno)) if errno
      self.switches = switches
      Loops.register(self)
    end

    # The hook of Fiber.schedule. Starts a fiber and returns at its first wait.
    # @param storage [Hash, true] the fiber's Fiber[] storage; true copies the caller's
    # @return [Fiber]
    def fiber(storage: true, &block)
      raise ArgumentError, "Fiber.schedule needs a block" unless block
      schedule((task = Task.current) ? Scope.around(task) : own_scope, block, storage).fiber
    end

    # Starts a task that belongs to the loop instead of the caller's scope. The outermost scope waits for it.
    # @api private
    # @param storage [Hash, true] the fiber's Fiber[] storage; true copies the caller's
    # @return [Task] at its first wait
    def background(storage: true, &block)
      schedule(@outermost || own_scope, block, storage)
    end

    # Starts such a task as a transient one: the outermost scope ends without it. See {Scope#spawn}.
    # @api private
    # @return [Task]
    def transient(&block) = (@outermost || own_scope).spawn(transient: true, &block)

    # Runs the loop until all scheduled tasks have ended.
    # @raise [Exception] the first failure of a task without a waiter
    # @return [void]
    def run
      return if closed? || forked?
      drive(own_scope) unless own_scope.tasks.empty?
      scope, @own_scope = own_scope, nil
      scope.conclude
    end

    # The hook of the thread's end and of Fiber.set_scheduler(nil). Runs the loop until all scheduled tasks have ended.
    # @return [void]
    def close
      return if closed?
      return forget_parent if forked?
      return if @kept
      begin
        run
      ensure
        close_engine
      end
    end
    alias_method :scheduler_close, :close

    # Runs the loop on the calling fiber until the scope is empty.
    # @api private
    # @param scope [Scope]
    # @return [void]
    def drive(scope)
      @outermost = scope
      scope.on_done { self.stop = true }
      self.stop = scope.tasks.empty? || abandoned?
      until turn_until_stopped
        return if forked?
        deaf? ? abandon(ResourceLimitError.deaf) : scope.interrupted(DeadlockError.new(tasks))
      end
      raise @abandoned if @abandoned
    rescue Exception => error # standard:disable Lint/RescueException -- the scope raises it when all have ended
      retry if take_back(error) # the exception of a timeout whose task has left the block meanwhile
      raise if abandoned?
      scope.interrupted(error)
      retry
    ensure
      @outermost = @hurry = nil
      keep_lock_waiters if abandoned?
      # During Thread#kill the ensure blocks of the tasks still run, and those of the background tasks that they start.
      [scope, own_scope].uniq.each { |left| unwind(left) } unless closed? || forked? || abandoned? || scope.tasks.empty?
    end

    # @api private
    # @return [Exception, nil] in a forked child: the exception that ended the forking task
    attr_reader :child_error

    # @api private
    # @return [Task, nil] the task that is inside a block of Dir.chdir: see {Patches::Chdir}
    attr_accessor :chdir_owner

    # @api private
    # Handles an exception that ends the program. A second one cancels all tasks by force, passing their shields. The
    # loop is abandoned {GRACE} seconds later, with tasks that rescue even that and with uninterruptible work. A third
    # one abandons the loop at once.
    # @param error [Exception]
    def hurry(error)
      return if @hurry.equal?(error)
      @haste = @hurry ? @haste + 1 : 1
      @hurry = error
      tasks.each { |task| task.cancel(force: true) } if @haste > 1
      abandon_later(error) if @haste == 2
      abandon(error) if @haste > 2
    end

    # @api private
    # @return [Boolean] whether the loop was left with unfinished tasks; it doesn't run again
    def abandoned? = !@abandoned.nil?

    # @return [String]
    def inspect
      state = closed? ? "closed" : "#{engine_name}, #{task_count} tasks"
      "#<NeverBlock::Scheduler #{state}>"
    end

    # @api private
    # Recognizes a Timeout.timeout without a class. It passes Timeout::Error up to version 0.5 of that gem, and an
    # ExitException of its own in later versions.
    # @return [Class, nil] the error to raise outside of the block, which is unwound whatever it rescues; nil if the
    #   given class is to be raised inside the block
    def bare_timeout(klass)
      return klass if klass.equal?(Timeout::Error) || klass.equal?(TimeoutError)
      Timeout::Error if klass.instance_of?(Timeout::ExitException)
    end

    # @api private
    # @param deadline [Integer] nanoseconds
    def watch_overdue(deadline) = TimeoutWatchdog.instance.watch(self, deadline)

    # Runs one of core's operations on a thread. The operation works on the caller's stack, so the caller
    # can't leave before its end. If Fiber#raise or Fiber#kill unwinds the caller anyway, an opened file
    # leaks: only that stack holds its number.
    # @api private
    # @param work [#call] the operation
    # @param kind [Symbol] see OPERATIONS
    def run_on_thread(work, kind)
      case kind
      when :open then ThreadPool.opens.call(leave: :interrupted) { work.call }
      when :whole then ThreadPool.operations.call(leave: :at_end) { work.call }
      when :step then Task.current.shield { ThreadPool.operations.call(leave: :at_end) { work.call } }
      end
    end

    # Lets the other fibers run.
    # @api private
    def between_steps = Task.current.shield { NeverBlock.pass }

    # @api private
    def process_wait_blocking(pid, flags)
      Fiber.blocking { Process::Status.wait(pid, flags) }
    end

    # @api private
    # @return [Boolean] whether no other thread could wake a task of this loop
    def alone? = !other_threads.could_wake?

    # @api private
    # @return [Boolean] whether another thread runs, or waits for a time or an event: virtual time may not jump
    def threads_outstanding? = other_threads.outstanding?

    # @api private
    # @return [OtherThreads]
    def other_threads = @other_threads ||= OtherThreads.new(self)

    private

    def abandon(error)
      @abandoned = error
      self.stop = true
    end

    def abandon_later(error)
      ThreadPool.start_idle("neverblock hurry") do
        sleep GRACE
        abandon(error) if @hurry.equal?(error) && !closed?
      end
    end

    def own_scope = @own_scope ||= Scope.new(self)

    def unwind(scope)
      return if scope.tasks.empty?
      scope.cancel(force: true)
      self.unmasked = true # Thread#kill passes masks that name exceptions
      scope.on_done { self.stop = true }
      self.stop = false
      100.times { return if scope.tasks.empty? || turn_until_stopped }
    ensure
      self.unmasked = false
    end

    def refuse(engine, reason)
      if reason.is_a?(Errno::EMFILE)
        raise ResourceLimitError, "no engine: #{reason.message}; #{ResourceLimitError.descriptors}"
      end
      raise ConfigurationError, "engine #{engine || "of this system"} can't be opened: " \
        "#{reason.message}. Choose another: NEVERBLOCK_ENGINE=#{self.class.backends.join("|")}"
    end

    def check_engine(engine)
      return if engine.nil? || self.class.backends.include?(engine)
      known = ENGINES.include?(engine)
      problem = known ? "this build lacks it (liburing or Linux headers were missing)" : "no such engine exists"
      raise ConfigurationError, "engine #{engine.inspect} (NEVERBLOCK_ENGINE, or engine:): #{problem}. " \
        "Choose one of #{self.class.backends.join(", ")}"
    end
  end
end
