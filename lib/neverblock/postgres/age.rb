# frozen_string_literal: true

module NeverBlock
  class Postgres
    # When a connection was opened, last used, and last heard of. Probes and audits don't count as use.
    #
    #   age = Age.new(0.1)             # its limits are shorter by a tenth
    #   age.heard(connection.heard)    # a user's statement has ended
    #   age.asked(connection.heard)    # one of our own has ended
    #
    # @api private
    class Age
      include MonotonicClock

      # @param chance [Float] part by which its limits are shorter, from 0 to 1
      def initialize(chance)
        @share = 1 - chance
        @born = @used = @heard = now
      end

      # @return [Float] part of a limit that applies to it, from 0 to 1
      attr_reader :share

      # @param time [Float] when the server was last heard, on the monotonic clock
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
    end
  end
end
