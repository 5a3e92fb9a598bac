# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What a connection is opened for that no fiber waits for: see {WarmStart}.
    # @api private
    class ExtraConnectionRequest
      include Request

      # @return [SessionDefaults]
      attr_reader :session_defaults

      def initialize(session_defaults)
        @session_defaults = session_defaults
        @abandoned = true
      end

      def exclusive? = false
    end
  end
end
