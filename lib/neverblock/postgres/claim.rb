# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Somebody wants a connection for himself; from any thread.
    # @api private
    class Claim
      include Request

      # @return [Profile]
      attr_reader :profile
      # @return [Object, nil] the scheduler of the fiber that waits
      attr_reader :loop
      # @return [Backend, nil] that was given
      attr_reader :backend
      # @return [String] for people: who wants it and why
      attr_reader :purpose
      # @return [Fiber, Thread] that wants it; a thread outside of loops
      attr_reader :owner
      # @return [String, nil] what was asked last by it
      attr_accessor :sql

      def initialize(profile, purpose)
        @profile = profile
        @purpose = purpose
        @loop = Scheduler.current
        @owner = @loop ? Fiber.current : Thread.current
        @turn = Thread::Queue.new
        @since = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        @backend = @queued = @sql = nil
        @abandoned = false
        @queue_time = 0.0
      end

      def exclusive? = true

      def lease? = true

      # @param backend [Backend]
      def granted(backend)
        @backend = backend
        @since, asked = Process.clock_gettime(Process::CLOCK_MONOTONIC), @since
        @queue_time = @since - asked if @queued
        wake
      end

      # It has no place yet.
      def queued = @queued ||= true

      # @return [Float, nil] since when it waits for a place
      def queued_at = (@since if @queued && @backend.nil?)

      # @return [Float, nil] since when it has one
      def held_since = (@since if @backend)

      # @return [Float] seconds that it waited for a place
      attr_reader :queue_time

      # @return [Boolean] whether it has what it wants
      def done? = !@backend.nil?

      # @return [String] with how long it has had its connection, or waited for one
      def to_s
        seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - @since
        format("%s, for %.1f s", purpose, seconds)
      end
    end
  end
end
