# frozen_string_literal: true

module NeverBlock
  # Runs the block where waits park fibers, and returns its value when all that it spawned has ended.
  #
  #   NeverBlock.run do |scope|
  #     scope.spawn { sleep 1 }
  #     scope.spawn { sleep 1 }
  #   end   # one second
  #
  # Outside a loop it starts one on the calling thread; inside one it is a nested scope; inside another scheduler it
  # takes a thread of its own while the caller's fiber parks.
  #
  # @param exit [:wait, :cancel] what becomes of tasks that are left when the block has ended
  # @param on_error [:raise, :report, #call] what becomes of a failure that nobody waits for: :raise cancels the rest
  #   and raises it from here, with the others in `#errors`; :report prints it and goes on; a callable gets it
  # @param patches [Boolean] whether Ruby's calls without a hook are prepended: docs/patches.md
  # @yieldparam scope [Scope]
  # @return [Object] the block's value
  # @raise [DeadlockError] if every task waits and nothing is left to wake one
  # @raise [Exception] the first failure, extended with {Failure}
  def self.run(exit: :wait, on_error: :raise, patches: true, &block)
    raise ArgumentError, "NeverBlock.run needs a block" unless block
    Options.one_of("exit", exit, %i[wait cancel])
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

  # The three places where a run can find itself.
  # @api private
  module Runs
    # Inside a loop of ours: a scope in the calling task.
    def self.nested(exit, on_error, block) = Scope.new(Scheduler.current, on_error:).hold(exit, &block)

    # Outside of any loop: one on this thread. Its first task holds the scope.
    def self.outermost(exit, on_error, block)
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
      loop_scope.cancel if exit == :cancel # what belongs to the loop itself, as look-ups of names
    end
    private_class_method :first

    # Inside another scheduler, or in a blocking section of one. Who is unwound ends it. One that has ended by itself is not
    # killed: it may still be waking those who wait for it, in code of the other scheduler's that is to come to its end.
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

    # In a forked child only the task that forked is left, and it has ended. As with a thread that forks, so has the
    # child then, with the status of what ended it; what comes after `run` is for the parent alone.
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
