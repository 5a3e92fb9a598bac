# frozen_string_literal: true

module NeverBlock
  class Postgres
    # When a connection was opened, last used, and last heard of. What {Turnover} asks the server itself is no use of it.
    #
    #   age = Age.new(0.1)          # limits are shorter by a tenth for this one
    #   age.heard(connection.heard)    # a message has come since it was looked at
    #   age.asked(connection.heard)    # the same, and it was an answer to us
    #
    # @api private
    class Age
      # @param chance [Float] by which part limits are shorter
      def initialize(chance)
        @share = 1 - chance
        @born = @used = @heard = now
      end

      # @return [Float] of a limit, that holds
      attr_reader :share

      # @param time [Float] when the server was last heard of
      # @return [void]
      def heard(time)
        @used = @heard = time if time > @heard
      end

      # @param time [Float]
      # @return [void]
      def asked(time)
        @heard = time if time > @heard
      end

      # @return [Float] seconds since it was opened
      def since_birth = now - @born

      # @return [Float] seconds without a user
      def since_use = now - @used

      # @return [Float] seconds without a message
      def since_message = now - @heard

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
