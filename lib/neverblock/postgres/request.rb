# frozen_string_literal: true

module NeverBlock
  class Postgres
    # A request for a place on a connection, which may have to wait: a {Statement}, a {Batch} of them, or a
    # {CheckoutRequest} for a lease.
    #
    #   router.route(request)          # => :queued
    #   request.queued                 # the wait begins
    #   request.park(seconds)          # its fiber sleeps
    #   request.granted(connection)    # it gets its place, and is woken
    #   request.abandon                # or no fiber waits for it any more
    #
    # Each has `session_defaults`, `loop` (the scheduler of the waiting fiber), `connection` (nil until it has a place),
    # `exclusive?` (whether it needs a connection with no other statement on it), `queued`, `queued_at` (nil until
    # then), `granted`; and for messages `owner`, `held_since`, `sql`. A {Statement} parks in its own way, since it
    # waits for its result by the same means.
    # @api private
    module Request
      include Holder

      # @return [Boolean] whether it needs its connection only until its statements have ended
      def alone? = !lease?

      # @return [String, nil] the shape by which {Timings} learn its duration
      def fingerprint = nil

      # @return [Boolean] whether its fiber owns a lock for which users of connections wait: it may have the last one
      def urgent? = false

      # @return [Boolean] whether it has become urgent, so that its fiber must look for a place again
      def urged? = false

      # @return [Boolean] whether no fiber waits for it any more
      def abandoned? = @abandoned

      # No fiber waits for it any more.
      # @return [void]
      def abandon = @abandoned = true

      # Sleeps until {#wake}; not at all if that was called since the last sleep.
      # @param seconds [Numeric, nil] the longest sleep; nil: no limit
      # @return [Boolean] false if it was not woken in time
      def park(seconds = nil) = @wake_up.wait(seconds)

      # It has its place, or must ask again. Thread-safe.
      # @return [void]
      def wake = @wake_up.call

      # @return [String] the connection's use, for messages
      def purpose = "a statement alone"
    end
  end
end
