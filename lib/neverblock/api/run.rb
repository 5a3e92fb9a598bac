# frozen_string_literal: true

module NeverBlock
  # Runs the block in a loop where waits park fibers. Returns the block's value when all
  # tasks that it spawned have ended.
  #
  #   NeverBlock.run do |scope|
  #     scope.spawn { sleep 1 }
  #     scope.spawn { sleep 1 }
  #   end   # one second
  #
  # Outside a loop, `run` starts one on the calling thread. Inside a loop, it opens a nested scope. Inside another
  # scheduler, it starts a thread with a loop and parks the caller's fiber.
  #
  # @param exit [:wait, :cancel] whether tasks that are left at the end of the block are waited for or cancelled
  # @param on_error [:raise, :report, #call] how to treat a failure of a task without a waiter: :raise cancels the other
  #   tasks and raises it from `run`, with further failures in `#errors`; :report prints it; a callable receives it
  # @param patches [Boolean] whether to apply the patches of docs/patches.md
  # @yieldparam scope [Scope]
  # @return [Object] the block's value
  # @raise [DeadlockError] if every task waits and no event can wake one
  # @raise [ConfigurationError] if Active Support keeps its state by thread, and that can't be changed any more
  # @raise [Exception] the first failure, extended with {Failure}
  def self.run(exit: :wait, on_error: :raise, patches: true, &block)
    raise ArgumentError, "NeverBlock.run needs a block" unless block
    Options.exit(exit)
    Options.on_error(on_error)
    Patches.apply if patches
    if Scheduler.current && Task.current
      Runs.nested(exit, on_error, block)
    elsif Fiber.scheduler
      Runs.on_own_thread(exit, on_error, patches, block)
    else
      Runs.outermost(exit, on_error, block)
    end
  end

  # The three kinds of place that `run` can be called from.
  # @api private
  module Runs
    # Inside one of our loops: a scope in the calling task.
    def self.nested(exit, on_error, block) = Scope.new(Scheduler.current, on_error:).hold(exit, &block)

    # Outside of any loop: a loop on this thread, whose first task holds the scope.
    def self.outermost(exit, on_error, block)
      Patches::Isolation.provide
      scheduler = Scheduler.kept
      loop_scope = Scope.new(scheduler)
      Fiber.set_scheduler(scheduler)
      begin
        main = loop_scope.start(proc { first(loop_scope, exit, on_error, block) }, [], "main", origin: block)
        Fiber.blocking? ? scheduler.drive(loop_scope) : Fiber.blocking { scheduler.drive(loop_scope) }
      ensure
        Fiber.set_scheduler(nil) unless scheduler.forked?
      end
      exit_child(scheduler.child_error) if scheduler.forked? && main.alive?
      loop_scope.conclude
      main.value
    end

    def self.first(loop_scope, exit, on_error, block)
      nested(exit, on_error, block)
    ensure
      loop_scope.cancel if exit == :cancel # tasks of the loop itself, such as look-ups of names
    end
    private_class_method :first

    # Inside another scheduler, or in a blocking section of one. The thread is killed when the caller is unwound. A
    # thread that has ended by itself isn't killed: it may be inside the other scheduler's code, waking its waiters.
    def self.on_own_thread(exit, on_error, patches, block)
      ended = false
      thread = Thread.new do
        Thread.current.report_on_exception = false
        NeverBlock.run(exit:, on_error:, patches:, &block)
      ensure
        ended = true
      end
      thread.value
    ensure
      thread.kill.join if thread && !ended
    end

    # Only the task that forked exists in a forked child, and it has ended here. The child exits with the status of that
    # end, as a forked thread does; the code after `run` belongs to the parent.
    def self.exit_child(error)
      case error
      when nil then exit
      when SystemExit, SignalException then raise error
      else
        warn error.full_message(highlight: $stderr.tty?)
        exit 1
      end
    end
    private_class_method :exit_child
  end
  private_constant :Runs
end
