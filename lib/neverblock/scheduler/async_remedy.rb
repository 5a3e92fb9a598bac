# frozen_string_literal: true

module NeverBlock
  # Raises an error with a remedy when the gem async calls our scheduler, which it takes for its own:
  #
  #   NeverBlock.run { Async { } }   # raises UnsupportedError: … use NeverBlock.spawn { } …
  #
  # They are handled by method_missing, so that `respond_to?` stays truthful.
  # @api private
  module AsyncRemedy
    # The callers are Async and Sync; Async::Task#run, #yield, #with_timeout and #cancel; Async::Notification#signal;
    # Async::Idler#wait. The last two names are private methods of Kernel.
    CALLS = %i[add_child resume transfer with_timeout push raise load].freeze
    private_constant :CALLS

    private

    def method_missing(name, ...)
      return super unless CALLS.include?(name)
      raise UnsupportedError,
        "the gem async needs its own loop, but this loop is NeverBlock's (async called #{name}). " \
        "Use NeverBlock.spawn { } instead of Async { }, or run Async outside of NeverBlock.run: " \
        "Thread.new { Sync { ... } }.value. docs/from-async.md maps each method of async to ours"
    end

    def respond_to_missing?(...) = super
  end
  private_constant :AsyncRemedy

  Scheduler.include(AsyncRemedy)
end
