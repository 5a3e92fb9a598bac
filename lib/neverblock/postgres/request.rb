# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What asks for a place on a connection, and may have to wait for it: a {Statement}, a {Batch} of them, a {CheckoutRequest} to a lease.
    #
    #   router.route(request)        # => :queued
    #   request.queued               # the wait begins
    #   request.park(seconds)        # its fiber sleeps, until
    #   request.granted(connection)     # it has its place, and is woken
    #   request.abandon              # or no fiber waits for it any more
    #
    # Each has `session_defaults`, `loop` (the scheduler of the fiber that waits), `connection` (nil until there is a place), `exclusive?`
    # (whether no other may be on the connection meanwhile), `queued`, `queued_at` (nil until then), `granted`; and for messages `owner`,
    # `held_since`, `sql`.
    # What is not said here is a statement's own business: it waits for its answer by the same means, and so parks in its own way.
    # @api private
    module Request
      include Holder

      # @return [Boolean] whether it is done with its connection when its statements are
      def alone? = !lease?

      # @return [String, nil] the shape that its time is learnt by
      def fingerprint = nil

      # @return [Boolean] whether no fiber waits for it any more
      def abandoned? = @abandoned

      # No fiber waits for it any more.
      # @return [void]
      def abandon = @abandoned = true

      # Its fiber sleeps until it is woken, or not at all if it has been since it slept last.
      # @param seconds [Numeric, nil] at most
      # @return [Boolean] false after that
      def park(seconds = nil) = !@wake_ups.pop(timeout: seconds).nil?

      # From any thread: it has its place, or is to ask again.
      # @return [void]
      def wake = @wake_ups << true

      # @return [String] what has the connection, for messages
      def purpose = "a statement alone"
    end
  end
end
