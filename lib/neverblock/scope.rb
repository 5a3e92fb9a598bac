# frozen_string_literal: true

require_relative "scope/nesting"

module NeverBlock
  # The region that one `run` opens. No task spawned inside outlives it.
  #
  #   NeverBlock.run do |scope|
  #     scope.spawn { ... }
  #     scope.tasks          # => [#<NeverBlock::Task ...>]
  #   end                    # returns when all have ended
  #
  # The first failure of a task without a waiter cancels the other tasks, waits for their ensure blocks, and is raised
  # from `run`. An exception outside of StandardError, such as an interrupt, takes precedence over StandardErrors.
  #
  # `scope/nesting.rb` orders the scopes of one task, also those of nested runs in Enumerators.
  class Scope
    # Exceptions that end the program. They are raised whatever `on_error` is.
    FATAL = [SystemExit, SignalException, NoMemoryError].freeze
    private_constant :FATAL

    include Nesting

    # @api private
    # @param scheduler [Scheduler] whose loop runs the tasks
    # @param on_error [:raise, :report, #call] how to treat a failure of a task without a waiter
    def initialize(scheduler, on_error: :raise)
      @scheduler = scheduler
      @on_error = Options.on_error(on_error)
      @tasks = {}.compare_by_identity
      @errors = []
      @closed = @failing = @ending = @told = false
      @depth = 0
      @limit = Nesting::FIRST_PRUNING
      @owner = @outer = @fibers = @heir = @waiting = @done = @reason = @transient = nil
    end

    # @api private
    # @param task [Task] a running task
    # @return [Scope] the innermost scope around the calling code. A nested run inside an Enumerator that has yielded is
    #   suspended, and its scope is skipped
    def self.around(task)
      scope = task.inner_scope
      scope = scope.outer until scope.equal?(task.scope) || !scope.suspended?
      scope
    end

    # Starts a task in this scope. The task begins when the caller next waits. Thread-safe.
    # @param arguments [Array] passed to the block
    # @param name [String, nil] shown by `inspect`, {NeverBlock.tasks} and {NeverBlock.dump}
    # @param transient [Boolean] whether the scope may end without it. When the scope's block has ended and only
    #   transient tasks are left, they are cancelled and their ensure blocks are waited for
    # @return [Task]
    # @raise [ClosedError] if the scope's run has ended
    def spawn(*arguments, name: nil, transient: false, &block)
      raise ArgumentError, "spawn needs a block" unless block
      start(block, arguments, name, transient:)
    end

    # @api private
    # `spawn` without a copy of the arguments.
    # @param origin [Proc, nil] the user's block, if `block` is an internal one around it
    def start(block, arguments, name, origin: nil, transient: false)
      raise_closed if @closed
      arguments = nil if arguments.empty?
      unless Thread.current.equal?(@scheduler.thread)
        return start_from_thread(block, arguments, name, origin, transient)
      end
      task = @scheduler.spawn(self, block, arguments, name, true) # adds the task to @tasks
      task.origin = origin if origin
      add_transient(task) if transient
      task.cancel(@reason) if @failing
      task
    end

    # Asks every task of the scope to end. A task that is spawned later ends before it begins.
    # @param reason [Object, nil] as in {Task#cancel}
    # @param force [Boolean] whether to cancel shielded tasks too
    # @return [self]
    def cancel(reason = nil, force: false)
      @failing = true
      @reason = reason unless reason.nil?
      @tasks.keys.each { |task| task.cancel(reason, force:) }
      self
    end

    # @return [Array<Task>] the unfinished tasks
    def tasks = @tasks.keys.select(&:alive?)

    # @return [Boolean] whether its run has ended
    def closed? = @closed

    # @return [String]
    def inspect = "#<NeverBlock::Scope #{@tasks.size} tasks#{" failing" if @failing}#{" closed" if @closed}>"

    # @api private
    # Called by each task at its end: on the loop's thread, or on the thread that cancelled it before its start.
    def task_finished(task, waited_for)
      return @heir.task_finished(task, waited_for) if @heir
      adopt_from(task)
      failed(task) if task.state == :failed && (!waited_for || fatal?(task.error))
    ensure
      @tasks.delete(task)
      @transient&.delete(task)
      @tasks.empty? ? done : cancel_transient
    end

    # @api private
    # Handles an interrupt or a deadlock of the loop itself.
    def interrupted(error)
      (DeadlockError === error) ? @errors.push(error) : @errors.unshift(error)
      cancel(error)
      @scheduler.hurry(error)
    end

    # @api private
    # Runs the block in the calling task as the scope's own code, and waits for all tasks that it spawned.
    # @return [Object] the block's value, if nothing failed
    # @raise [Exception] the first failure, extended with {Failure}
    def hold(exit)
      owner = Task.current
      enter(owner)
      completed = false
      cancelled = nil
      value = @scheduler.cancel_scope(self) { yield self }
      completed = true
      value
    rescue Cancelled => error # a cancellation passes through; it is not a failure
      @reason = error.reason
      cancelled = error
      raise
    rescue Scheduler::ScopeExit => error # an exit passes through as well
      @reason = reason_of(error)
      raise
    rescue Exception => error # standard:disable Lint/RescueException -- raised again by conclude
      @errors << error
      @scheduler.hurry(error) if SignalException === error
      raise
    ensure
      @owner = nil
      cancel(@errors.first || @reason || (reason_of(nil) unless completed)) if !completed || exit == :cancel
      @ending = true
      cancel_transient
      begin
        wait_for_tasks
      rescue Scheduler::ScopeExit
        # An outer timeout is raised again where its block continues; a cancellation is raised once.
        raise unless cancelled
        raise cancelled, cause: cancelled.cause
      ensure
        leave(owner)
        conclude
      end
    end

    # @api private
    # Closes the scope and raises its first failure.
    # @return [void]
    # @raise [Exception] the first failure, extended with {Failure}
    def conclude
      @closed = true
      return if @errors.empty?
      first, *others = @errors.uniq(&:object_id).sort_by.with_index { |error, place| [rank(error), place] }
      raise Failure.attach(first, others), cause: first.cause
    end

    # @api private
    # Registers a block to call when the last task has ended. Such a scope has no code of its own, so it ends when only
    # transient tasks are left.
    def on_done(&block)
      @done = block
      @ending = true
      cancel_transient
    end

    # @api private
    # @return [Exception, nil] the scope's first failure
    def failure = @errors.first

    private

    # The cancellation reason for the tasks when a throw unwinds their scope: the failure of
    # an outer scope, or a timeout.
    # @param error [Exception, nil]
    def reason_of(error)
      return error.reason if Cancelled === error
      scope = self
      scope = scope.outer until scope.nil? || scope.failure
      scope&.failure || (error if Scheduler::ScopeExit === error)
    end

    def add_transient(task)
      (@transient ||= {}.compare_by_identity)[task] = true
      @told = false
      cancel_transient
    end

    # Transient tasks don't keep a scope open after its block has ended. A cancelled scope
    # has given them a reason already.
    def cancel_transient
      return unless @ending && @transient && !@told && !@failing && !@tasks.empty? && @tasks.size == @transient.size
      @told = true
      @transient.keys.each { |task| task.cancel("only transient tasks are left in its scope") }
    end

    def fatal?(error) = FATAL.any? { |kind| kind === error }

    # Orders failures: exceptions that a plain `rescue` doesn't catch, such as interrupts, precede StandardErrors.
    def rank(error)
      return 0 if fatal?(error)
      (StandardError === error) ? 2 : 1
    end

    def done
      @done&.call
      waiting, @waiting = @waiting, nil
      @scheduler.unblock(self, waiting) if waiting
    end

    # Waits for the tasks. When a cancellation or a timeout ends the wait, the tasks are cancelled and waited for first.
    # In a forked child the parent's tasks never end, so they aren't waited for.
    def wait_for_tasks
      until closing? || @scheduler.forked?
        woken = false
        begin
          @waiting = Fiber.current
          @scheduler.block(self, nil)
          woken = true
        ensure
          @waiting = nil
          unless woken
            cancel(reason_of($!))
            wait_for_tasks
          end
        end
      end
    end

    # Sets @closed before it reads @tasks: a concurrent `spawn` of another thread is either refused or waited for.
    def closing?
      @closed = true if @tasks.empty?
      @tasks.empty?
    end

    # Holds a task from another thread back until the scope has registered it; the scope may have ended meanwhile. The
    # block is uninterruptible: a registered task that is never released would keep the scope waiting for ever.
    def start_from_thread(block, arguments, name, origin, transient)
      Scheduler.uninterrupted do
        task = @scheduler.spawn(self, block, arguments, name, Fiber.current.storage)
        task.origin = origin if origin
        @tasks[task] = true
        add_transient(task) if transient
        admit(task)
        task.cancel(@reason) if @failing
        task
      end
    end

    def admit(task)
      return task.release unless @closed
      task.cancel
      raise_closed
    end

    def raise_closed
      raise ClosedError, "can't spawn in #{inspect}: its run has ended. Spawn in a scope that is still open"
    end

    def failed(task)
      error = report(task)
      failed_by(error) if error
    end

    def failed_by(error)
      @errors << error
      cancel(error) unless @failing
      @scheduler.exit_scope(@owner, self) if @owner
      @scheduler.hurry(error) if SignalException === error
    end

    # @return [Exception, nil] the error to raise from `run`; also an error of the `on_error` callable
    def report(task)
      error = task.error
      return error if @on_error == :raise || fatal?(error)
      if @on_error == :report
        warn("NeverBlock: #{task.inspect} failed\n#{error.full_message(highlight: false)}")
      else
        @on_error.call(error)
      end
      nil
    rescue Exception => raised # standard:disable Lint/RescueException -- raised by the run
      raised
    end
  end
end
