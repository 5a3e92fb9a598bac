# frozen_string_literal: true

module NeverBlock
  # Ruby's Fiber::Scheduler on the native engine; usable by itself:
  #
  #   Thread.new do
  #     Fiber.set_scheduler(NeverBlock::Scheduler.new)
  #     Fiber.schedule { sleep 1 }
  #     Fiber.schedule { sleep 1 }
  #   end.join     # one second: the scheduler ends with its thread
  #
  # The hooks are documented in ext/neverblock/scheduler/*.c, one file for each kind of wait; here are those that need
  # no speed. {NeverBlock.run} is the comfortable way in.
  class Scheduler
    include Resolver

    ENGINES = %w[epoll uring poll].freeze

    # Core's operations that can take long (Ruby 3.4 and later), by the method that asks, the class it is of, and what is done
    # with them. The others - stat, close, mkdir, children … - cost a fraction of a hand-over to a thread.
    #
    # - :open goes to a thread that is interrupted when its caller leaves: a FIFO's open waits for the other end, maybe for ever.
    #   Patches::Open keeps those of regular files from asking.
    # - :whole goes to a thread: files to copy may have to come from a disk, and core asks for copies of 1 MiB and more alone.
    # - :step is one of Zlib's, and has a turn in the loop unless Patches::Zlib knows that the whole call is large. An exception
    #   between two of them leaves Zlib's stream in a state that raises Zlib::DataError in the exception's place.
    OPERATIONS = {
      open: {"open" => %w[IO File Kernel], "initialize" => %w[IO File], "sysopen" => %w[IO]},
      whole: {"copy_stream" => %w[IO], "copy" => %w[IO::Buffer], "initialize_copy" => %w[IO::Buffer]},
      step: {
        "deflate" => %w[Zlib Zlib::Deflate], "inflate" => %w[Zlib Zlib::Inflate], "gzip" => %w[Zlib], "gunzip" => %w[Zlib],
        "finish" => %w[Zlib::ZStream Zlib::GzipFile Zlib::GzipWriter], "<<" => %w[Zlib::Deflate Zlib::Inflate Zlib::GzipWriter],
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

    # This thread's scheduler for `run`, kept from one run to the next.
    # @api private
    # @return [Scheduler]
    def self.kept
      thread = Thread.current
      kept = thread.instance_variable_get(:@neverblock_scheduler)
      return kept if kept && !kept.closed? && !kept.forked? && !kept.abandoned?
      thread.instance_variable_set(:@neverblock_scheduler, new(kept: true))
    end

    # Seconds that a second signal leaves to what has been cancelled by force.
    GRACE = 1
    private_constant :GRACE

    # Bug 19640: 3.3.0 hands io_write a buffer whose memory may be gone; without the hook it writes by itself and asks
    # io_wait.
    undef_method :io_write if RUBY_VERSION == "3.3.0"

    # @param engine [String, Symbol, nil] "epoll", "uring" or "poll"; nil: the best one here
    # @param switches [Integer] how many fibers may follow one another before the loop looks at the kernel and its timers
    # @param kept [Boolean] whether it belongs to `run`, and so outlives Fiber.set_scheduler(nil)
    # @raise [ConfigurationError] if there is no such engine, or this system refuses it
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

    # Fiber.schedule: a new fiber, which has run until its first wait when this returns.
    # @param storage [Hash, true] its Fiber[] storage; true copies the caller's
    # @return [Fiber]
    def fiber(storage: true, &block)
      raise ArgumentError, "Fiber.schedule needs a block" unless block
      schedule((task = Task.current) ? Scope.around(task) : own_scope, block, storage).fiber
    end

    # A task that belongs to the loop rather than to whoever asked for it: its outermost scope waits for it.
    # @api private
    # @return [Task] which has run until its first wait
    def background(&block)
      schedule(@outermost || own_scope, block, true)
    end

    # The same, and that scope ends without it: see {Scope#spawn}.
    # @api private
    # @return [Task]
    def transient(&block) = (@outermost || own_scope).spawn(transient: true, &block)

    # Runs what was scheduled until all of it has ended.
    # @raise [Exception] the first failure that nobody waited for
    # @return [void]
    def run
      return if closed? || forked?
      drive(own_scope) unless own_scope.tasks.empty?
      scope, @own_scope = own_scope, nil
      scope.conclude
    end

    # The thread's end, or Fiber.set_scheduler(nil): what was scheduled runs to its end.
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

    # Turns the loop on the calling fiber until the scope is empty.
    # @api private
    # @param scope [Scope]
    # @return [void]
    def drive(scope)
      @outermost = scope
      scope.on_done { self.stop = true }
      self.stop = scope.tasks.empty? || abandoned?
      until turn_until_stopped
        return if forked?
        scope.interrupted(DeadlockError.new(tasks))
      end
      raise @abandoned if @abandoned
    rescue Exception => error # standard:disable Lint/RescueException -- the scope raises it when all have ended
      retry if take_back(error) # a timeout's exception for a task that has gone on meanwhile
      raise if abandoned?
      scope.interrupted(error)
      retry
    ensure
      @outermost = @hurry = nil
      keep_lock_waiters if abandoned?
      # Thread#kill unwinds us: the tasks' ensures still run, and those of what they leave to the background meanwhile.
      [scope, own_scope].uniq.each { |left| unwind(left) } unless closed? || forked? || abandoned? || scope.tasks.empty?
    end

    # @api private
    # @return [Exception, nil] in a forked child: what ended the task that forked
    attr_reader :child_error

    # @api private
    # Something that ends the program is on its way out. A second one no longer waits for shields and ensures: what has
    # not ended {GRACE} seconds later is left behind, be it a task that rescues even that, or work that can't be
    # interrupted. A third one leaves at once.
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
    # @return [Boolean] whether its loop was left with tasks in it; it runs no more
    def abandoned? = !@abandoned.nil?

    # @return [String]
    def inspect
      state = closed? ? "closed" : "#{engine_name}, #{task_count} tasks"
      "#<NeverBlock::Scheduler #{state}>"
    end

    # @api private
    # What Timeout.timeout passes for "no class" is Timeout::Error up to version 0.5 of that gem; later ones an
    # ExitException of their own, which they would turn into that.
    # @return [Class, nil] the error outside of a block that the timeout unwinds whatever rescues it inside; nil: its class is to
    #   be raised inside
    def bare_timeout(klass)
      return klass if klass.equal?(Timeout::Error) || klass.equal?(TimeoutError)
      Timeout::Error if klass.instance_of?(Timeout::ExitException)
    end

    # @api private
    # @param deadline [Integer] nanoseconds
    def watch_overdue(deadline) = TimeoutWatchdog.instance.watch(self, deadline)

    # Core's operations work on the caller's stack, which can't leave before their end. Where Fiber#raise or Fiber#kill unwinds
    # the caller nevertheless, a file that has been opened stays open: File.open keeps its number on that stack alone.
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

    # The other fibers' turn.
    # @api private
    def between_steps = Task.current.shield { NeverBlock.pass }

    # @api private
    def process_wait_blocking(pid, flags)
      Fiber.blocking { Process::Status.wait(pid, flags) }
    end

    # @api private
    # @return [Boolean] whether no other thread could wake a task of this one
    def alone? = !(@other_threads ||= OtherThreads.new(self)).could_wake?

    private

    def abandon(error)
      @abandoned = error
      self.stop = true
    end

    def abandon_later(error)
      Thread.new do
        ThreadPool.mark_idle(Thread.current, true)
        sleep GRACE
        abandon(error) if @hurry.equal?(error) && !closed?
      end.name = "neverblock hurry"
    end

    def own_scope = @own_scope ||= Scope.new(self)

    def unwind(scope)
      return if scope.tasks.empty?
      scope.cancel(force: true)
      self.unmasked = true # as Thread#kill goes through masks that name exceptions
      scope.on_done { self.stop = true }
      self.stop = false
      100.times { return if scope.tasks.empty? || turn_until_stopped }
    ensure
      self.unmasked = false
    end

    def refuse(engine, reason)
      raise ResourceLimitError, "no engine: #{reason.message}; #{ResourceLimitError.descriptors}" if reason.is_a?(Errno::EMFILE)
      raise ConfigurationError, "the engine #{engine || "of this system"} can't be opened here: " \
        "#{reason.message}. Choose another: NEVERBLOCK_ENGINE=#{self.class.backends.join("|")}"
    end

    def check_engine(engine)
      return if engine.nil? || self.class.backends.include?(engine)
      remedy = ENGINES.include?(engine) ? "this build has none (liburing or Linux headers were missing)" : "there is no such engine"
      raise ConfigurationError, "engine #{engine.inspect} (NEVERBLOCK_ENGINE, or engine:): #{remedy}; choose one of #{self.class.backends.join(", ")}"
    end
  end
end
