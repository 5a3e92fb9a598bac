# frozen_string_literal: true

# The functions of NeverBlock. They are for code inside a loop; each comment says what the function does outside of one.
#
# This file has `spawn`, `pass`, `timeout`, `shield`, `offload`, `neverblock` and `tasks`. The others are in `api/`:
#
#   run.rb             starts a loop, or opens a nested scope
#   concurrently.rb    maps items under a limit; results in the items' order
#   as_completed.rb    yields values in the order of completion
#   race.rb            the first success; the rest is cancelled
#   select.rb          the first of several queues, tasks, descriptors and timers
#   move_on_after.rb   ends a block after a time, without an error
#   timeout_at.rb      a timeout with a deadline instead of a length
#   dump.rb            prints the tree of scopes and tasks
#   dump_on.rb         prints that tree when a signal arrives
module NeverBlock
  # Starts a task in the caller's innermost scope. The task begins when the caller next waits. Outside a loop the block
  # runs to its end before `spawn` returns, so a consumer must not be spawned there before its producer.
  # @param arguments [Array] passed to the block
  # @param name [String, nil] shown by `inspect`, {tasks} and {dump}
  # @param transient [Boolean] whether its scope may end without it, as in {Scope#spawn}
  # @return [Task]
  # @raise [ConfigurationError] for a transient task outside a loop, where it might never end
  def self.spawn(*arguments, name: nil, transient: false, &block)
    raise ArgumentError, "NeverBlock.spawn needs a block" unless block
    task = Task.current if Scheduler.current
    return Scope.around(task).start(block, arguments, name, transient:) if task
    refuse_transient if transient
    Task.finished(block, name, block.call(*arguments))
  end

  def self.refuse_transient
    raise ConfigurationError,
      "spawn(transient: true) needs a loop: outside of one, the block would run to its end, which " \
      "may never come. Call it inside NeverBlock.run"
  end
  private_class_method :refuse_transient

  # @!method self.pass
  #   Lets the other runnable fibers run first; for long computations that never wait. Outside a loop: Thread.pass.
  #   @return [nil]

  # Runs the block with a time limit. When the limit has passed, the block is unwound at its next wait; no `rescue`
  # inside stops that. Code that never waits is interrupted too.
  # @param seconds [Numeric, nil] nil or 0: no limit
  # @yieldparam seconds [Numeric, nil] the same limit
  # @return [Object] the block's value
  # @raise [TimeoutError] after the limit
  def self.timeout(seconds, &block)
    raise ArgumentError, "NeverBlock.timeout needs a block" unless block
    Options.seconds("timeout", seconds)
    return yield(seconds) if seconds.nil?
    expire_after(seconds, "execution expired after #{seconds} s", &block)
  end

  # From so many seconds on, 31 years, a limit is none, as in engine/timers.c. The thread of Ruby's Timeout dies of it.
  ENDLESS = 1_000_000_000
  private_constant :ENDLESS

  def self.expire_after(seconds, message, &block)
    return yield(seconds) if seconds >= ENDLESS
    return expire_outside(seconds, message, &block) unless Scheduler.current
    Timeout.timeout(seconds, TimeoutError, message, &block)
  end

  # Timeout.timeout passes every `rescue` only when it is given no class. So the error gets our class afterwards.
  def self.expire_outside(seconds, message)
    inner = nil
    Timeout.timeout(seconds) do |limit|
      yield limit
    rescue Timeout::Error => error
      inner = error # raised by the block itself, such as a client's read timeout
      raise
    end
  rescue Timeout::Error => error
    raise if error.equal?(inner)
    raise TimeoutError, message, error.backtrace, cause: nil
  end
  private_class_method :expire_after, :expire_outside

  # Defers cancellations and outer timeouts until the block has ended; for commits and hand-overs.
  # @return [Object] the block's value
  def self.shield(&block)
    raise ArgumentError, "NeverBlock.shield needs a block" unless block
    task = Task.current
    task ? task.shield(&block) : yield
  end

  # Runs the block on a thread of a bounded pool while the calling fiber parks; for calls that block inside C, such as
  # FFI, image libraries and Bignum division. Ruby code gains no speed. A cancelled caller leaves at once; the thread
  # finishes the call and its value is dropped. Outside a loop the block runs in place.
  # @return [Object] the block's value
  # @raise [Exception] the block's exception
  def self.offload(&block)
    raise ArgumentError, "NeverBlock.offload needs a block" unless block
    ThreadPool.offload.call(&block)
  end

  # `neverblock(false) { }` runs its block as stock Ruby would, so that a wait stops the whole loop.
  # @param on [Boolean]
  # @return [Object] the block's value
  def self.neverblock(on = true)
    raise ArgumentError, "NeverBlock.neverblock needs a block" unless block_given?
    return yield if on || Fiber.current.blocking?
    Fiber.blocking { yield }
  end

  # @return [Array<Task>] the unfinished tasks of this thread's loop, with their name, age, spawned_at and waits_for
  def self.tasks = Scheduler.of_thread&.tasks || []
end

require_relative "api/as_completed"
require_relative "api/concurrently"
require_relative "api/dump"
require_relative "api/dump_on"
require_relative "api/move_on_after"
require_relative "api/race"
require_relative "api/run"
require_relative "api/select"
require_relative "api/timeout_at"
