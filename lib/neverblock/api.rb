# frozen_string_literal: true

# The functions of NeverBlock, for inside a loop; each says what it does outside of one. The larger ones have files of their own.
module NeverBlock
  # Starts a task in the caller's innermost scope; it runs when the caller next waits. Outside a loop the block runs at
  # once, to its end, as plain Ruby: never spawn a consumer there and feed it afterwards.
  # @param arguments [Array] passed to the block
  # @param name [String, nil] for people
  # @param transient [Boolean] whether its scope may end without it, as in {Scope#spawn}
  # @return [Task]
  # @raise [ConfigurationError] for a transient task outside a loop: it might never end there
  def self.spawn(*arguments, name: nil, transient: false, &block)
    raise ArgumentError, "NeverBlock.spawn needs a block" unless block
    task = Task.current if Scheduler.current
    return Scope.around(task).start(block, arguments, name, transient:) if task
    refuse_transient if transient
    Task.finished(block, name, block.call(*arguments))
  end

  def self.refuse_transient
    raise ConfigurationError, "spawn(transient: true) outside of a loop would run the block to its end, which may never " \
      "come: call it inside NeverBlock.run"
  end
  private_class_method :refuse_transient

  # @!method self.pass
  #   Lets the other runnable fibers go first; for long loops that never wait. Outside a loop: Thread.pass.
  #   @return [nil]

  # Runs the block for at most so long. It is unwound at its next wait, whatever is rescued inside; code that never waits is
  # interrupted too.
  # @param seconds [Numeric, nil] nil or 0: no limit
  # @yieldparam seconds [Numeric, nil] the same
  # @return [Object] the block's value
  # @raise [TimeoutError]
  def self.timeout(seconds, &block)
    raise ArgumentError, "NeverBlock.timeout needs a block" unless block
    Options.seconds("timeout", seconds)
    return yield(seconds) if seconds.nil? || seconds.infinite?
    expire_after(seconds, "execution expired after #{seconds} s", &block)
  end

  def self.expire_after(seconds, message, &block)
    return expire_outside(seconds, message, &block) unless Scheduler.current
    Timeout.timeout(seconds, TimeoutError, message, &block)
  end

  # Ruby's own timeout passes every rescue only if it is given no class; so the class is ours afterwards.
  def self.expire_outside(seconds, message)
    inner = nil
    Timeout.timeout(seconds) do |limit|
      yield limit
    rescue Timeout::Error => error
      inner = error # the block's own: a client's read timeout, say
      raise
    end
  rescue Timeout::Error => error
    raise if error.equal?(inner)
    raise TimeoutError, message, error.backtrace, cause: nil
  end
  private_class_method :expire_after, :expire_outside

  # Holds a cancellation, and any timeout from outside, off until the block has ended: for commits and hand-overs.
  # @return [Object] the block's value
  def self.shield(&block)
    raise ArgumentError, "NeverBlock.shield needs a block" unless block
    task = Task.current
    task ? task.shield(&block) : yield
  end

  # Runs the block on a thread of a bounded pool while the fiber parks: for calls that block inside C (FFI, image
  # libraries, Bignum division). Ruby code does not get faster by it. A cancelled caller leaves at once and the thread
  # ends the call for nobody. Outside a loop the block runs in place.
  # @return [Object] the block's value
  # @raise [Exception] what the block raised
  def self.offload(&block)
    raise ArgumentError, "NeverBlock.offload needs a block" unless block
    ThreadPool.offload.call(&block)
  end

  # Inside a loop, `neverblock(false) { }` runs its block as stock Ruby would: waits stop the loop.
  # @param on [Boolean]
  # @return [Object] the block's value
  def self.neverblock(on = true)
    raise ArgumentError, "NeverBlock.neverblock needs a block" unless block_given?
    return yield if on || Fiber.current.blocking?
    Fiber.blocking { yield }
  end

  # @return [Array<Task>] the unfinished tasks of this thread's loop, each with name, age, spawned_at and waits_for
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
