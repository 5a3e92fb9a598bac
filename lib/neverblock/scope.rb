# frozen_string_literal: true

require_relative "scope/nesting"

module NeverBlock
  # What one `run` owns: nothing spawned inside outlives it.
  #
  #   NeverBlock.run do |scope|
  #     scope.spawn { ... }
  #     scope.tasks          # => [#<NeverBlock::Task ...>]
  #   end                    # returns when all have ended
  #
  # The first failure that nobody waits for cancels the others, waits for their ensures, and is raised from `run`;
  # an exception that is no StandardError, an interrupt for example, goes before those that are.
  class Scope
    # Exceptions that end the program: no `on_error` keeps them.
    FATAL = [SystemExit, SignalException, NoMemoryError].freeze
    private_constant :FATAL

    include Nesting

    # @api private
    # @param scheduler [Scheduler] whose loop runs the tasks
    # @param on_error [:raise, :report, #call] what to do with a failure that nobody waits for
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
    # @param task [Task] that runs
    # @return [Scope] the innermost one that the calling code is in: not that of a nested run in an Enumerator which has
    #   yielded in the middle of it
    def self.around(task)
      scope = task.inner_scope
      scope = scope.outer until scope.equal?(task.scope) || !scope.suspended?
      scope
    end

    # Starts a task in this scope; it runs when the caller next waits. From any thread.
    # @param arguments [Array] passed to the block
    # @param name [String, nil] for people
    # @param transient [Boolean] whether the scope may end without it: it is cancelled, and its ensure blocks are waited
    #   for, when the scope's block has ended and only transient tasks are left
    # @return [Task]
    # @raise [ClosedError] if the scope's run has ended
    def spawn(*arguments, name: nil, transient: false, &block)
      raise ArgumentError, "spawn needs a block" unless block
      start(block, arguments, name, transient:)
    end

    # @api private
    # spawn without its arguments' copies.
    # @param origin [Proc, nil] the user's block, where `block` is one of ours around it
    def start(block, arguments, name, origin: nil, transient: false)
      raise_closed if @closed
      arguments = nil if arguments.empty?
      return start_from_thread(block, arguments, name, origin, transient) unless Thread.current.equal?(@scheduler.thread)
      task = @scheduler.spawn(self, block, arguments, name, true) # which adds it to @tasks
      task.origin = origin if origin
      add_transient(task) if transient
      task.cancel(@reason) if @failing
      task
    end

    # Asks every task of the scope to end. Later spawns end before they start.
    # @param reason [Object, nil] as in {Task#cancel}
    # @param force [Boolean] also those that are shielded
    # @return [self]
    def cancel(reason = nil, force: false)
      @failing = true
      @reason = reason unless reason.nil?
      @tasks.keys.each { |task| task.cancel(reason, force:) }
      self
    end

    # @return [Array<Task>] those that have not ended
    def tasks = @tasks.keys.select(&:alive?)

    # @return [Boolean] whether its run has ended
    def closed? = @closed

    # @return [String]
    def inspect = "#<NeverBlock::Scope #{@tasks.size} tasks#{" failing" if @failing}#{" closed" if @closed}>"

    # @api private
    # Called by each task at its end, on the loop's thread, or on the one that has cancelled it before its start.
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
    # An interrupt, or a deadlock, reached the loop itself.
    def interrupted(error)
      (DeadlockError === error) ? @errors.push(error) : @errors.unshift(error)
      cancel(error)
      @scheduler.hurry(error)
    end

    # @api private
    # Runs the block here, in the calling task, as the scope's own code, and waits for all that it spawned.
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
    rescue Cancelled => error # on its way out: no failure
      @reason = error.reason
      cancelled = error
      raise
    rescue Scheduler::ScopeExit => error # the same
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
      rescue Scheduler::ScopeExit # a timeout around us, which comes again where its block goes on; a cancellation comes once
        raise unless cancelled
        raise cancelled, cause: cancelled.cause
      ensure
        leave(owner)
        conclude
      end
    end

    # @api private
    # Ends the scope.
    # @return [void]
    # @raise [Exception] the first failure, extended with {Failure}
    def conclude
      @closed = true
      return if @errors.empty?
      first, *others = @errors.uniq(&:object_id).sort_by.with_index { |error, place| [rank(error), place] }
      raise Failure.attach(first, others), cause: first.cause
    end

    # @api private
    # Called when the last task has ended. The scope has no block: it ends when only transient tasks are left.
    def on_done(&block)
      @done = block
      @ending = true
      cancel_transient
    end

    # @api private
    # @return [Exception, nil] its first failure
    def failure = @errors.first

    private

    # What the tasks are told where their scope is unwound: a failure around it, which does it by a throw, or a timeout.
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

    # Once the scope's block has ended, transient tasks don't keep it open. Where the scope was cancelled they have been told why.
    def cancel_transient
      return unless @ending && @transient && !@told && !@failing && !@tasks.empty? && @tasks.size == @transient.size
      @told = true
      @transient.keys.each { |task| task.cancel("only transient tasks are left in its scope") }
    end

    def fatal?(error) = FATAL.any? { |kind| kind === error }

    # What a `rescue` without a class lets pass, such as an interrupt, is never hidden behind what it takes.
    def rank(error)
      return 0 if fatal?(error)
      (StandardError === error) ? 2 : 1
    end

    def done
      @done&.call
      waiting, @waiting = @waiting, nil
      @scheduler.unblock(self, waiting) if waiting
    end

    # Whatever ends this wait - a cancellation, a timeout that unwinds us - goes on when the tasks, which it cancels,
    # have ended. The tasks of a forked child's parent never do.
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

    # Closed first, then looked at: what another thread spawns meanwhile is either refused by it or waited for by us.
    def closing?
      @closed = true if @tasks.empty?
      @tasks.empty?
    end

    # Another thread's task is held back until the scope knows it, which may have ended meanwhile. Whole, whatever Thread#raise
    # does: the scope would wait for ever for one that is never released.
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
      raise ClosedError, "this scope's run has ended: spawn in a scope that is open"
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

    # @return [Exception, nil] what is still to be raised: also what on_error itself raises
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
