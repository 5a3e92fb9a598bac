# frozen_string_literal: true

require_relative "connection"

module NeverBlock
  class MySQL
    # A real connection by mysql2, whose client does not tell the status that the server sends with each response. So
    # the server is asked to report the state of the transaction too. It does so only with responses without rows. So a
    # session in which a read, or the end of a transaction, begins the next one is refused.
    # @api private
    class Mysql2Connection < Connection
      GREETING = "#{GREETING}, @@autocommit, @@completion_type".freeze
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

      def read_settings
        @id, @sql_mode, @charset, autocommit, completion = @client.query(GREETING).rows.first
        refuse("autocommit is #{autocommit}", "autocommit on") unless autocommit.to_s == "1"
        refuse("completion_type is #{completion}", "completion_type at NO_CHAIN") unless completion == "NO_CHAIN"
      end

      def refuse(what, remedy)
        raise ConfigurationError, "#{what} in a new session, by a session default or the server's own setting. The " \
          "adapter for mysql2 can't see the transactions that this opens: leave #{remedy}, or use trilogy"
      end

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
