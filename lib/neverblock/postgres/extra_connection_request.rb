# frozen_string_literal: true

module NeverBlock
  class Postgres
    # A request for a connection that is opened in advance, and for which no fiber waits: see {WarmStart}.
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
