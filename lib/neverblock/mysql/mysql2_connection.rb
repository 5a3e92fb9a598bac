# frozen_string_literal: true

require_relative "connection"

module NeverBlock
  class MySQL
    # A real connection by mysql2, whose client does not tell the status that the server sends with each response. So
    # the server is asked to report the state of the transaction too.
    # @api private
    class Mysql2Connection < Connection
      PROBE = "DO 0"
      private_constant :PROBE

      # @param client [Mysql2Client] a new one
      # @param session_defaults [Array<String>]
      def initialize(client, session_defaults: [])
        super
        client.query(PROBE) # what is reported of the settings is no session state
        @status = client.server_status
      end

      private

      def track
        super
        @client.query("SET @@SESSION.session_track_transaction_info = 'STATE'")
      end

      def server_status = @client.server_status

      def warning_count = @client.warning_count

      def probe = @client.query(PROBE) # mysql2 reads nothing of the response to a ping

      def check = @client.check
    end
  end
end
