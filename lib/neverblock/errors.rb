# frozen_string_literal: true

require "timeout"

module NeverBlock
  # Every error of ours includes it:
  #
  #   begin
  #     NeverBlock.timeout(1) { slow }
  #   rescue NeverBlock::Error => error
  #     error   # => #<NeverBlock::TimeoutError: execution expired>
  #   end
  #
  # It is a module, so that an error can also be what Ruby's own code expects: {TimeoutError} is a Timeout::Error.
  # {Cancelled} does not include it: rescuing errors must never swallow a cancellation.
  module Error
  end

  # A setting that can't be: the message names it, its value and what is allowed.
  class ConfigurationError < ArgumentError
    include Error
  end

  # A server can't listen on an address; the `cause` is what the system said.
  class BindError < StandardError
    include Error
  end

  # What came is no HTTP, or what an app returned can't be made HTTP; the message says which part.
  class ProtocolError < StandardError
    include Error
  end

  # NeverBlock.timeout ran out.
  class TimeoutError < Timeout::Error
    include Error
  end

  # Raised inside a task that is cancelled, and by the `value` of one that was.
  #
  #   task.cancel("the client has left")
  #   begin
  #     task.value
  #   rescue NeverBlock::Cancelled => error
  #     error.reason    # => "the client has left"
  #     error.message   # => "the task was cancelled: the client has left"
  #   end
  #
  # No {Error}, and no StandardError: code that rescues errors must never swallow a cancellation.
  class Cancelled < Exception # standard:disable Lint/InheritException
    # @return [Object, nil] what {Task#cancel} or {Scope#cancel} was given; where a failure cancels the other tasks of its
    #   scope, that failure; where a timeout unwinds a scope, the timeout's exception
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

  # A bound was reached and nothing more is taken.
  class OverloadError < StandardError
    include Error
  end

  # Used after its end: a closed scheduler, a scope whose run has returned.
  class ClosedError < StandardError
    include Error
  end

  # Code asked a loop of ours for what only another library's loop has; the message names the remedy.
  class UnsupportedError < StandardError
    include Error
  end

  # Every task waits, and nothing is left that could wake one.
  class DeadlockError < StandardError
    include Error

    # @return [Array<Task>] the tasks that waited
    attr_reader :tasks

    def initialize(tasks = [])
      @tasks = tasks
      super("nothing is left that could wake any of these tasks (no timer, descriptor, offloaded call or other thread):\n" +
        tasks.map { |task| "  #{task.inspect}" }.join("\n"))
    end
  end

  # The system gives no more of something; the message names the limit and how to raise it.
  class ResourceLimitError < StandardError
    include Error

    # @api private
    # @param count [Integer] how many fibers there are
    # @param cause [Exception, nil] what Ruby said
    # @return [ResourceLimitError]
    def self.fibers(count, cause)
      new("can't start one more fiber: #{count} hold a stack, and each takes two of the memory maps that the kernel " \
        "allows a process (vm.max_map_count)#{" [#{cause.message}]" if cause}. Bound them with NeverBlock::FiberPool " \
        "or concurrently(limit:), or raise the limit: sysctl -w vm.max_map_count=1048576")
    end

    # @api private
    # @return [String] what an EMFILE or ENFILE means, and what to do about it
    def self.descriptors
      soft, hard = Process.getrlimit(:NOFILE)
      raising = if soft < hard
        "raise the limit: Process.setrlimit(:NOFILE, #{hard}) before the first run, or ulimit -n #{hard}"
      else
        "have root raise the hard limit: limits.conf, or LimitNOFILE= of a systemd unit, or --ulimit nofile= of a container"
      end
      "this process may have #{soft} descriptors open (ulimit -n; at most #{hard}). Use fewer at a time, with " \
        "NeverBlock::FiberPool or concurrently(limit:), or #{raising}"
    end
  end

  # Extends the exception that `run` raises: what else failed while the rest was being cancelled.
  #
  #   begin
  #     NeverBlock.run { 2.times { NB.spawn { raise "no" } } }
  #   rescue => error
  #     error.errors   # => the other exceptions
  #   end
  module Failure
    # @return [Array<Exception>] the others, in the order they came
    def errors = @neverblock_errors || []

    # Says what to do when there were no descriptors left.
    # @return [String]
    def detailed_message(**)
      case self
      when Errno::EMFILE, Errno::ENFILE then "#{super}\n#{ResourceLimitError.descriptors}"
      else super
      end
    end

    # @api private
    # Adds others to an exception, unless it is frozen or has an `errors` method of its own. YJIT compiles a plain `respond_to?`,
    # and would throw that code away with each `extend`.
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
