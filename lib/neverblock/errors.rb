# frozen_string_literal: true

require "timeout"

module NeverBlock
  # The root of the error tree. Every error class of NeverBlock includes it:
  #
  #   begin
  #     NeverBlock.timeout(1) { slow }
  #   rescue NeverBlock::Error => error
  #     error   # => #<NeverBlock::TimeoutError: execution expired>
  #   end
  #
  # It is a module, so that a class can also inherit from one of Ruby's: {TimeoutError} is a Timeout::Error. {Cancelled}
  # doesn't include it, because a `rescue` of errors must never swallow a cancellation.
  module Error
  end

  # A setting has an invalid value. The message names the setting, the value and the allowed values.
  class ConfigurationError < ArgumentError
    include Error
  end

  # A server can't listen on an address. The `cause` is the error of the system.
  class BindError < StandardError
    include Error
  end

  # A request isn't valid HTTP, or an app's response can't be sent as HTTP. The message names the part.
  class ProtocolError < StandardError
    include Error
  end

  # The limit of a {NeverBlock.timeout} has passed.
  class TimeoutError < Timeout::Error
    include Error
  end

  # Raised inside a cancelled task, and by its `value`.
  #
  #   task.cancel("the client has left")
  #   begin
  #     task.value
  #   rescue NeverBlock::Cancelled => error
  #     error.reason    # => "the client has left"
  #     error.message   # => "the task was cancelled: the client has left"
  #   end
  #
  # Inherits from Exception, without {Error}: a `rescue` of errors must never swallow a cancellation.
  class Cancelled < Exception # standard:disable Lint/InheritException
    # @return [Object, nil] the reason given to {Task#cancel} or {Scope#cancel}. For a scope that a failure cancels,
    #   that failure; for a scope that a timeout unwinds, the timeout's exception
    attr_reader :reason

    # @param message [String]
    # @param reason [Object, nil]
    def initialize(message = "the task was cancelled", reason: nil)
      super(message)
      @reason = reason
    end

    # @return [String] the message, with the reason
    def to_s
      case @reason
      when nil then super
      when Exception then "#{super}: #{@reason.message} (#{@reason.class})"
      else "#{super}: #{@reason}"
      end
    end
  end

  # A limit is reached, and further work is refused.
  class OverloadError < StandardError
    include Error
  end

  # An object was used after its end: a closed scheduler, or a scope whose run has returned.
  class ClosedError < StandardError
    include Error
  end

  # The caller expected the loop of another library. The message names the remedy.
  class UnsupportedError < StandardError
    include Error
  end

  # Every task waits, and no event can wake one.
  class DeadlockError < StandardError
    include Error

    # @return [Array<Task>] the waiting tasks
    attr_reader :tasks

    def initialize(tasks = [])
      @tasks = tasks
      super("no event can wake any of these tasks (no timer, descriptor, offloaded call or other thread is left):\n" +
        tasks.map { |task| "  #{task.inspect}" }.join("\n"))
    end
  end

  # A limit of the system is reached. The message names the limit and how to raise it.
  class ResourceLimitError < StandardError
    include Error

    # @api private
    # @param count [Integer] the number of fibers with a stack
    # @param cause [Exception, nil] Ruby's own error
    # @return [ResourceLimitError]
    def self.fibers(count, cause)
      new("can't start another fiber: #{count} fibers hold a stack, and each takes memory and two of the memory " \
        "maps that the kernel allows a process (vm.max_map_count)#{" [#{cause.message}]" if cause}. Run fewer at a " \
        "time with NeverBlock::FiberPool or concurrently(limit:), or raise the limit: " \
        "sysctl -w vm.max_map_count=1048576#{"; that of memory is ulimit -v, or vm.overcommit_memory" if cause}")
    end

    # @api private
    # @return [ResourceLimitError]
    def self.deaf
      new("this thread can't run a loop any more: there was no memory for a fiber's stack where the thread was " \
        "blocking, and Ruby has lost count of that, so that no wait would park its task. Another thread or process " \
        "can. Give the process more memory (ulimit -v, vm.overcommit_memory), or start fewer fibers")
    end

    # @api private
    # @return [String] the meaning and the remedy of EMFILE and ENFILE
    def self.descriptors
      soft, hard = Process.getrlimit(:NOFILE)
      raising = if soft < hard
        "raise the limit: Process.setrlimit(:NOFILE, #{hard}) before the first run, or ulimit -n #{hard}"
      else
        "have root raise the hard limit: limits.conf, or LimitNOFILE= of a systemd unit, " \
          "or --ulimit nofile= of a container"
      end
      "this process may have #{soft} descriptors open (ulimit -n; at most #{hard}). Use fewer at a time, with " \
        "NeverBlock::FiberPool or concurrently(limit:), or #{raising}"
    end
  end

  # Extends the exception that `run` raises with the failures that followed it, while the other tasks were cancelled.
  #
  #   begin
  #     NeverBlock.run { 2.times { NB.spawn { raise "no" } } }
  #   rescue => error
  #     error.errors   # => the other exceptions
  #   end
  module Failure
    # @return [Array<Exception>] the further exceptions, in the order of their arrival
    def errors = @neverblock_errors || []

    # Adds the limit and the remedy to an EMFILE or ENFILE.
    # @return [String]
    def detailed_message(**)
      case self
      when Errno::EMFILE, Errno::ENFILE then "#{super}\n#{ResourceLimitError.descriptors}"
      else super
      end
    end

    # @api private
    # Adds further exceptions to one, unless it is frozen or has its own `errors` method. The call goes through
    # `public_send` because YJIT compiles a plain `respond_to?`, and would invalidate that code with each `extend`.
    # @return [Exception] the first
    def self.attach(first, others)
      return first if first.frozen? || (first.public_send(:respond_to?, :errors) && !(Failure === first))
      first.extend(Failure)
      all = (first.errors + others).uniq(&:object_id).reject { |error| error.equal?(first) }
      first.instance_variable_set(:@neverblock_errors, all)
      first
    end
  end
end
