# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What a connection is opened for that no fiber waits for: see {WarmStart}.
    # @api private
    class Spare
      include Request

      # @return [Profile]
      attr_reader :profile

      def initialize(profile)
        @profile = profile
        @abandoned = true
      end

      def exclusive? = false
    end
  end
end
