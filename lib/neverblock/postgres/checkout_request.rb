# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The request of a fiber, or a thread, for a connection that it is to have for itself.
    # @api private
    class CheckoutRequest
      include Request

      # @return [SessionDefaults]
      attr_reader :session_defaults
      # @return [Object, nil] the scheduler of the fiber that waits
      attr_reader :loop
      # @return [PipelinedConnection, nil] that was given
      attr_reader :connection
      # @return [Fiber, Thread] that wants it; a thread outside of loops
      attr_reader :owner
      # @return [String, nil] what was asked last by it
      attr_accessor :sql

      # @param session_defaults [SessionDefaults]
      # @param purpose [String] what it is wanted for
      # @param opening [Boolean] whether a transaction begins with that
      def initialize(session_defaults, purpose, opening: false)
        @session_defaults = session_defaults
        @purpose = purpose
        @opening = opening
        @task = Task.current
        @loop = Scheduler.current
        @owner = @loop ? Fiber.current : Thread.current
        @wake_ups = Thread::Queue.new
        @since = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        @connection = @queued = @sql = nil
        @abandoned = false
        @queue_time = 0.0
      end

      # @return [String] for messages: what it is wanted for, and by which fiber or thread
      def purpose
        owner = @task || (@owner if Thread === @owner)
        "#{"a transaction that began with " if @opening}#{@purpose} (#{owner&.name || (@loop ? "a fiber" : "a thread")})"
      end

      def exclusive? = true

      def lease? = true

      # @param connection [PipelinedConnection]
      def granted(connection)
        @connection = connection
        @since, asked = Process.clock_gettime(Process::CLOCK_MONOTONIC), @since
        @queue_time = @since - asked if @queued
        wake
      end

      # It has no place yet.
      def queued = @queued ||= true

      # @return [Float, nil] since when it waits for a place
      def queued_at = (@since if @queued && @connection.nil?)

      # @return [Float, nil] since when it has one
      def held_since = (@since if @connection)

      # @return [Float] seconds that it waited for a place
      attr_reader :queue_time

      # @return [Boolean] whether it has what it wants
      def done? = !@connection.nil?

      # @return [String] with how long it has had its connection, or waited for one
      def to_s
        seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - @since
        format("%s, for %.1f s", purpose, seconds)
      end
    end
  end
end
