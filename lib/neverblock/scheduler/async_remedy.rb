# frozen_string_literal: true

module NeverBlock
  # What the gem async calls on the scheduler of the fiber, which it takes for its own, names the remedy here:
  #
  #   NeverBlock.run { Async { } }   # raises UnsupportedError: … use NeverBlock.spawn { } …
  #
  # They are no methods, so that `respond_to?` says what is true.
  # @api private
  module AsyncRemedy
    # By what: Async and Sync; Async::Task#run, #yield, #with_timeout and #cancel; Async::Notification#signal; Async::Idler#wait.
    # The last two are Kernel's private methods.
    CALLS = %i[add_child resume transfer with_timeout push raise load].freeze
    private_constant :CALLS

    private

    def method_missing(name, ...)
      return super unless CALLS.include?(name)
      raise UnsupportedError, "the gem async needs a loop of its own, and this one is NeverBlock's (it called #{name}). " \
        "Use NeverBlock.spawn { } instead of Async { }, or run Async outside of NeverBlock.run: " \
        "Thread.new { Sync { ... } }.value. docs/from-async.md has each word of async beside ours"
    end

    def respond_to_missing?(...) = super
  end
  private_constant :AsyncRemedy

  Scheduler.include(AsyncRemedy)
end
