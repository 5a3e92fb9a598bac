# frozen_string_literal: true

module NeverBlock
  class Postgres
    # A queued request for an exclusive connection, by a fiber or a thread. It becomes the holder of the {Lease}.
    #
    #   request = CheckoutRequest.new(session_defaults, "LISTEN news")
    #   pool.find_place(request) until request.done?
    #   request.connection   # => PipelinedConnection
    # @api private
    class CheckoutRequest
      include Request

      # @return [SessionDefaults]
      attr_reader :session_defaults
      # @return [Object, nil] the scheduler of the waiting fiber
      attr_reader :loop
      # @return [PipelinedConnection, nil] nil: it still waits
      attr_reader :connection
      # @return [Fiber, Thread] the one that waits; a thread outside of loops
      attr_reader :owner
      # @return [String, nil] the last statement of the lease
      attr_accessor :sql

      # @param session_defaults [SessionDefaults]
      # @param purpose [String] the lease's purpose
      # @param opening [Boolean] whether a transaction begins with it
      # @param urgent [Boolean] as {#urgent?}
      def initialize(session_defaults, purpose, opening: false, urgent: false)
        @session_defaults = session_defaults
        @purpose = purpose
        @opening = opening
        @task = Task.current
        @loop = Scheduler.current
        @owner = @loop ? Fiber.current : Thread.current
        @wake_up = WakeUp.new
        @since = Clock.now
        @connection = @queued = @sql = nil
        @abandoned = false
        @urgent = urgent
        @asked = nil
        @queue_time = 0.0
      end

      # @return [String] for messages: the lease's purpose, and its fiber or thread
      def purpose
        owner = @task || (@owner if Thread === @owner)
        "#{"a transaction that began with " if @opening}#{@purpose} " \
        "(#{owner&.name || (@loop ? "a fiber" : "a thread")})"
      end

      def exclusive? = true

      def lease? = true

      # @param connection [PipelinedConnection]
      def granted(connection)
        @connection = connection
        @since, asked = Clock.now, @since
        @queue_time = @since - asked if @queued
        wake
      end

      # The request waits for a place from now on.
      def queued = @queued ||= true

      # @return [Float, nil] when it began to wait; nil: it does not
      def queued_at = (@since if @queued && @connection.nil?)

      # @return [Float, nil] since when it has its connection
      def held_since = (@since if @connection)

      # @return [Boolean]
      def urgent? = @urgent

      # Lets its fiber find out whether it owns one of these locks: no other can tell. Each is asked for once, since the
      # fiber takes no lock while it waits.
      # @param locks [Array<Thread::Mutex>]
      # @return [void]
      def ask(locks)
        @asked ||= {}.compare_by_identity
        fresh = locks.reject { |lock| @asked.key?(lock) }
        return if fresh.empty?
        fresh.each { |lock| @asked[lock] = true }
        wake
      end

      # Called by its fiber when it was woken.
      def urged? = !@urgent && !@asked.nil? && (@urgent = @asked.each_key.any?(&:owned?))

      # @return [Float] seconds that it waited for a place
      attr_reader :queue_time

      # @return [Boolean] whether it has its connection
      def done? = !@connection.nil?

      # @return [String] {#purpose}, and for how long it has had its connection, or waited
      def to_s
        seconds = Clock.now - @since
        format("%s, for %.1f s", purpose, seconds)
      end
    end
  end
end
