# frozen_string_literal: true

module NeverBlock
  class MySQL
    # A real connection: a client of trilogy, and what is known of its session.
    #
    #   connection = Connection.new(client, session_defaults: ["SET NAMES utf8mb4"])
    #   connection.query("select 1", Trilogy::QUERY_FLAGS_DEFAULT)
    #   connection.clean    # => true: others may have it
    #
    # The server reports changes of session state with each response (session_track_state_change), as far as it knows
    # them: SET of settings and variables, temporary tables, prepared statements. A connection with one is closed,
    # whatever its statements looked like.
    # @api private
    class Connection
      # What is read and set before the first statement.
      GREETING = "SELECT CONNECTION_ID(), @@sql_mode, @@character_set_client"
      TRACKING = "SET @@SESSION.session_track_state_change = ON"

      # Codes of the server with which it ends the connection: killed, shut down, idle for too long.
      ENDING = [1053, *1152..1161, 1927, 4031].to_h { |code| [code, true] }.freeze
      # The driver's own methods without its lock, which masks interrupts twice for each call. Here a connection is one
      # fiber's in any case. A query that others have wrapped, such as a tracer, is called as it is.
      STATUS, WARNINGS, CHECK, QUERY = %i[server_status warning_count check query].map do |name|
        method = Trilogy.instance_method(name)
        method = method.super_method while method.super_method
        method
      end
      # Bits of the status that are the same on each connection without a transaction, results or settings.
      UNTOUCHED = Trilogy::SERVER_STATUS_IN_TRANS | Trilogy::SERVER_STATUS_AUTOCOMMIT |
        Trilogy::SERVER_STATUS_MORE_RESULTS_EXISTS
      # Where the driver defines its query.
      BARE = [Trilogy, (Trilogy::Synchronization if defined?(Trilogy::Synchronization))].freeze
      private_constant :ENDING, :STATUS, :WARNINGS, :CHECK, :QUERY, :UNTOUCHED, :BARE

      # @return [Trilogy]
      attr_reader :client
      # @return [Integer] the server's number of it, for KILL
      attr_reader :id
      # @return [String]
      attr_reader :sql_mode
      # @return [String] in which the server reads statements
      attr_reader :charset
      # @return [Float] when it was opened, on the monotonic clock
      attr_reader :opened_at
      # @return [String, nil] what it is used for, for messages
      attr_accessor :purpose
      # @return [SavedInsertId, nil] of the session that has parked it
      attr_accessor :saved
      # @return [Integer] Trilogy::SERVER_STATUS_…, of the last response
      attr_reader :status
      # @return [Integer] warnings of the last statement
      attr_reader :warnings

      # @param client [Trilogy, Mysql2Client] a new one
      # @param session_defaults [Array<String>]
      # @return [Connection]
      def self.of(client, session_defaults:)
        kind = (Trilogy === client) ? self : Mysql2Connection
        kind.new(client, session_defaults:)
      end

      # @param client [Trilogy] a new one
      # @param session_defaults [Array<String>] statements that make its session what it has to be
      # @raise [Trilogy::Error]
      def initialize(client, session_defaults: [])
        @client = client
        @opened_at = Clock.now
        @flags = client.query_flags
        @bare = BARE.include?(client.method(:query).owner)
        @broken = @used = @uncertain = false
        @state = @isolation = @saved = nil
        @warnings = 0
        track
        session_defaults.each { |sql| client.query(sql) }
        read_settings
        @status = client.server_status
        @autocommit = @status & Trilogy::SERVER_STATUS_AUTOCOMMIT
      end

      # @param sql [String]
      # @param flags [Integer] Trilogy::QUERY_FLAGS_…
      # @return [Trilogy::Result]
      # @raise [Trilogy::Error] see {#broken?} then
      def query(sql, flags)
        @client.query_flags = @flags = flags unless @flags == flags
        @used = @uncertain = true
        @warnings = 1 # if it fails: the error itself
        result = @bare ? QUERY.bind_call(@client, sql) : @client.query(sql)
        responded
        whole = true
        result
      rescue Trilogy::Error => error
        whole = recoverable?(error)
        raise
      ensure
        @broken = true unless whole # an interrupted read loses the connection too, also if its fiber is killed
      end

      # Yields the client, for what is no statement, and for the next result of several.
      # @yieldparam client [Trilogy]
      # @return [Object] the block's value
      def with_client
        value = yield @client
        responded
        whole = true
        value
      rescue Trilogy::Error => error
        whole = recoverable?(error)
        raise
      ensure
        @broken = true unless whole
      end

      # @return [Boolean] whether it can't be used any more
      def broken? = @broken

      # Looks whether the server has closed it, without asking.
      # @return [Boolean]
      def alive?
        !@broken && check
      rescue Trilogy::Error
        @broken = true
        false
      end

      # @return [Boolean]
      def in_transaction? = @status & Trilogy::SERVER_STATUS_IN_TRANS != 0

      # @return [Boolean] whether more results of the last text wait
      def more_results? = @status & Trilogy::SERVER_STATUS_MORE_RESULTS_EXISTS != 0

      # @return [String, nil] the first statement that has left session state, in words
      attr_reader :state

      # @param what [String] that leaves session state, for the log
      # @return [void]
      def leave_state(what) = @state ||= what

      # SET TRANSACTION was sent: the next BEGIN consumes it.
      attr_accessor :isolation

      # Makes what earlier users have left unreadable: LAST_INSERT_ID(), FOUND_ROWS(), ROW_COUNT() and the warnings.
      # @param insert_id [Integer] what LAST_INSERT_ID() is to be
      # @return [void]
      def wash(insert_id)
        query("SELECT LAST_INSERT_ID(#{insert_id})", Trilogy::QUERY_FLAGS_DEFAULT) if @used || insert_id != 0
      end

      # @return [Integer] what LAST_INSERT_ID() is
      def insert_id = query("SELECT LAST_INSERT_ID()", Trilogy::QUERY_FLAGS_DEFAULT).rows.first.first.to_i

      # Rolls back what is open, and finds out whether the session is as new.
      # @return [Boolean] false: close it
      def clean
        return false if @broken || more_results?
        ask if @uncertain
        query("ROLLBACK", @flags) if in_transaction?
        untouched?
      rescue Trilogy::Error
        false
      end

      # An error outside of a transaction leaves the status as it was; inside, it may have ended the transaction.
      # @return [Boolean] whether its session is as new, as far as is known without asking
      def untouched?
        !@broken && @state.nil? && @isolation.nil? && @status & UNTOUCHED == @autocommit
      end

      # Ends it. Waits for the server at most as long as the driver does.
      # @return [void]
      def close
        @broken = true
        @client.close
      rescue Trilogy::Error, IOError, SystemCallError
        nil # it is gone
      end

      # Forgets it in a forked child, without a word to the server.
      # @return [void]
      def discard
        @broken = true
        @client.discard!
      rescue Trilogy::Error, SystemCallError
        nil
      end

      # @return [String]
      def inspect = "#<NeverBlock::MySQL::Connection #{@id}#{" broken" if @broken}#{" with #{@state}" if @state}>"

      private

      def read_settings
        @id, @sql_mode, @charset = @client.query(GREETING).rows.first
      end

      # Servers before MySQL 5.7 and MariaDB 10.2 do not know it.
      def track
        @client.query(TRACKING)
      rescue Trilogy::ProtocolError
        nil
      end

      def server_status = STATUS.bind_call(@client)

      def warning_count = WARNINGS.bind_call(@client)

      # For a response without an effect, with the status.
      def probe = @client.ping

      def check = CHECK.bind_call(@client)

      # After an error the status is that of an earlier response.
      def ask
        probe
        @status = @client.server_status
        @uncertain = false
      end

      def responded
        @uncertain = false
        @status = server_status
        @warnings = warning_count
        changed = @status & Trilogy::SERVER_STATUS_SESSION_STATE_CHANGED != 0
        @state ||= "the server has reported session state" if changed
      end

      # The server's own errors leave the connection as it was, and so does a text that was too long to be sent.
      def recoverable?(error)
        return !ENDING[error.error_code] if error.error_code
        Trilogy::SynchronizationError === error || error.message.include?("TRILOGY_MAX_PACKET_EXCEEDED")
      end
    end
  end
end
