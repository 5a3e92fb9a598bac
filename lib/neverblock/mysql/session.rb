# frozen_string_literal: true

module NeverBlock
  class MySQL
    # The state and the calls of one virtual connection. A read takes a real connection for itself alone. A transaction
    # and session state pin one. After a write it is parked: the session finds it again, with its ROW_COUNT(), unless
    # another fiber needed it meanwhile.
    #
    #   session = Session.new(database)
    #   session.query("select 1")              # any connection
    #   session.query("BEGIN")                 # one, from here on …
    #   session.query("insert into users …")
    #   session.query("COMMIT")                # … to here; then it is parked
    #   session.query("SET @a = 1")            # one, from here on …
    #   session.check_in                       # … to here; then it is closed
    #
    # Users have a {VirtualConnection}, which is a Trilogy and passes all calls on. The state is not there, because
    # instance variables of a driver's object are in a hash table of Ruby's, where each access takes ten times as long.
    # @api private
    class Session
      # Errors of a server that is no primary any more.
      READ_ONLY = [1290, 1836].freeze
      private_constant :READ_ONLY

      # @param database [MySQL]
      def initialize(database)
        @database = database
        @session_defaults = [].freeze
        @query_flags = Trilogy::QUERY_FLAGS_DEFAULT
        @held = @pinned = @parked = @lost = nil
        @closed = @configuring = @busy = @aside = false
        @residue = Residue.new
        @queue_time = 0.0
        @server_status = Trilogy::SERVER_STATUS_AUTOCOMMIT
        @warning_count = @last_insert_id = @affected_rows = 0
      end

      # @return [Connection, :room, nil] what {Pool} has given: while a statement runs, and what is pinned
      attr_accessor :held
      # @return [Integer] Trilogy::QUERY_FLAGS_…
      attr_accessor :query_flags
      # @return [Integer] after the last statement
      attr_reader :server_status, :warning_count, :last_insert_id, :affected_rows
      # @return [Float] seconds that the last statement waited for a real connection
      attr_reader :queue_time

      # SET statements of the block become session defaults: each real connection gets them before it serves this one.
      # They are sent when one is opened.
      # @return [Object] the block's value
      def configure
        before, @configuring = @configuring, true
        yield
      ensure
        @configuring = before
      end

      # The same for adapters that can't use a block: it lasts until {#configured}.
      # @return [void]
      def configuring = @configuring = true

      # @return [void]
      def configured = @configuring = false

      # @param sql [String]
      # @return [Trilogy::Result]
      # @raise [Trilogy::Error] the server's error; {OutcomeUnknown}, {SessionLost}
      # @raise [PoolTimeout] if no connection was free in time
      def query(sql)
        in_turn do
          next add_default(sql) if @configuring && sql.match?(/\A\s*SET\b/i)
          classification = connections.classify(sql)
          unpark
          (classification.read? && @pinned.nil?) ? share(sql, classification) : run(sql, classification)
        end
      end

      # Gives its real connection back: an open transaction is rolled back, and session state ends.
      # @return [void]
      def check_in
        unpark
        connection, @pinned = @pinned, nil
        @lost = nil
        @residue.reset
        return (connections.abandon(self) if @held) if connection.nil? || @busy
        connections.check_in(connection, self)
      end

      # @return [Boolean] whether it has a real connection, for whatever purpose
      def kept? = !(@held.nil? && @pinned.nil? && @parked.nil?)

      # @return [String, nil] why it keeps a real connection
      def pinned_for = @pinned&.then { |connection| connection.state || connection.purpose }

      # @return [Boolean] whether it has session state
      def changed? = !@pinned&.state.nil?

      # Runs the block's statements on one real connection, which is closed afterwards. For session state that neither
      # the text of a statement nor the server shows, such as a stored function that calls GET_LOCK().
      # @return [Object] the block's value
      def without_multiplexing
        in_turn { hold("without_multiplexing").leave_state("without_multiplexing") }
        yield
      end

      # Runs the block's reads without a wait for a connection: if none is free, on one that is opened for that. For
      # callers with a lock for which the users of the others may wait.
      # @return [Object] the block's value
      def aside
        before, @aside = @aside, true
        yield
      ensure
        @aside = before
        @residue.left unless @pinned
      end

      # @return [true]
      # @raise [Trilogy::Error] if the server can't be reached
      def ping
        in_turn do
          unpark
          @pinned ? with_pinned(&:ping) : connections.ready
        end
      end

      # Opens a real connection, unless there is one, so that errors of connecting are raised here.
      # @return [true]
      # @raise [Trilogy::Error]
      def ready = ping

      # @return [true]
      # @raise [Trilogy::Error] if it is closed, or its transaction is lost
      def check = check_open || true

      # @return [void]
      def close
        check_in
        @closed = true
        nil
      end

      # For a forked child: sends nothing.
      # @return [true]
      def discard!
        @pinned&.discard
        @held = @pinned = @parked = nil
        @closed = true
      end

      # @return [Boolean]
      def closed? = @closed

      # @param string [String]
      # @return [String] for a literal in SQL
      def escape(string)
        check_open
        return @pinned.client.escape(string) if @pinned
        connections.escape(string)
      end

      # @return [Encoding, nil] of statements; nil: the driver converts them
      def encoding = connections.encoding

      # @return [Boolean]
      def more_results_exist? = @pinned&.more_results? || false

      # @return [Trilogy::Result, nil]
      def next_result
        in_turn { @pinned&.more_results? ? remember(@pinned, with_pinned(&:next_result)) : nil }
      end

      # @return [Integer]
      def abandon_results! = in_turn { @pinned ? with_pinned(&:abandon_results!) : 0 }

      # @param option [Integer] Trilogy::SET_SERVER_…
      # @return [true]
      def set_server_option(option) = in_session("set_server_option") { |client| client.set_server_option(option) }

      # @param name [String]
      # @return [true]
      def change_db(name) = in_session("change_db") { |client| client.change_db(name) }
      alias_method :select_db, :change_db

      # @return [Float, nil] seconds
      def read_timeout = @pinned ? @pinned.client.read_timeout : @database.connection_options[:read_timeout]

      # @return [Float, nil] seconds
      def write_timeout = @pinned ? @pinned.client.write_timeout : @database.connection_options[:write_timeout]

      # @param seconds [Numeric, nil]
      def read_timeout=(seconds)
        in_session("read_timeout=") { |client| client.read_timeout = seconds }
      end

      # @param seconds [Numeric, nil]
      def write_timeout=(seconds)
        in_session("write_timeout=") { |client| client.write_timeout = seconds }
      end

      # @return [String]
      def server_version = @database.version

      # @return [String, nil] of the last transaction on the connection that it keeps
      def last_gtid = @pinned&.client&.last_gtid

      # @return [Hash]
      def connection_options = @database.connection_options

      # @return [Boolean] after the last statement
      def in_transaction? = @server_status & Trilogy::SERVER_STATUS_IN_TRANS != 0

      private

      def connections = @connections ||= @database.connections(@session_defaults)

      # As in the driver, one fiber at a time may use it.
      def in_turn
        raise Trilogy::SynchronizationError if @busy
        check_open
        abandon if @held && @pinned.nil?
        begin
          @busy = true
          yield
        ensure
          @busy = false
          end_turn
        end
      end

      # A kill of the fiber or the thread runs no `rescue`: only here it is seen that the connection was lost.
      def end_turn
        connection = @pinned || @held
        lose(connection, nil) if Connection === connection && connection.broken?
        @pinned ? park : (abandon if @held)
      end

      # An exception from outside came while a connection changed hands.
      def abandon
        connections.abandon(self)
        @residue.forget
      end

      def check_open
        raise Trilogy::ConnectionClosed, "Attempted to use closed connection" if @closed
        raise SessionLost, "#{@lost} was lost with its connection: this statement was not sent" if @lost
      end

      def add_default(sql)
        @session_defaults = [*@session_defaults, -sql].freeze
        @connections = nil
        Trilogy::Result.new(nil, nil, 0.0, false, 0, 0)
      end

      # A read that needs no connection of its own, unless it turns out otherwise.
      def share(sql, classification)
        return connections.beside("a read") { |one| remember(one, one.query(sql, @query_flags)) } if @aside
        connection = acquire(classification)
        begin
          send_statement(connection, sql, classification)
        ensure
          keep_or_release(connection) unless connection.broken?
        end
      end

      # Warnings may be asked for, and what a function or a view has set belongs to this session.
      def keep_or_release(connection)
        if connection.untouched? && connection.warnings.zero?
          @residue.left
          return connections.check_in(connection, self)
        end
        @residue.took
        @residue.ran(nil)
        @pinned = connection
      end

      # With nothing in it but what may be asked for, another may take it meanwhile.
      def park
        return unless @pinned.untouched?
        @parked, @pinned = @pinned, nil
        connections.park(@parked, self, @residue.park)
      end

      def unpark
        return unless @parked
        connection, @parked = @parked, nil
        @pinned = nil
        return @residue.displaced unless connections.unpark(connection, self)
        return if (@pinned = connection).alive?
        @pinned = nil
        connections.drop(connection, self)
        @residue.forget
      end

      def run(sql, classification)
        connection = hold(classification)
        connection.purpose = classification.reason unless connection.in_transaction? || connection.state
        own_residue(connection, classification) if classification.reads_residue?
        connection.leave_state(classification.reason) if classification.leaves_state?
        connection.isolation = true if classification.kind == :isolation
        result = send_statement(connection, sql, classification)
        @residue.ran(result.last_insert_id)
        connection.isolation = nil if classification.kind == :begin
        # One that is not understood may be a definition too, such as ALTER DEFINER=… VIEW.
        connections.defined(sql) if classification.kind == :definition || classification.kind == :session
        result
      end

      def own_residue(connection, classification)
        @residue.prepare(connection, classification)
      rescue Exception => error # standard:disable Lint/RescueException -- an interrupted one is lost too
        lose(connection, error) if connection.broken?
        raise
      end

      def hold(purpose)
        return @pinned if @pinned
        connection = acquire(purpose)
        @residue.took
        @pinned = connection
      end

      def acquire(purpose)
        purpose = purpose.reason if Classification === purpose
        asked = Clock.now
        connections.acquire(purpose, self)
      ensure
        @queue_time = Clock.now - asked
      end

      def send_statement(connection, sql, classification)
        before = connection.in_transaction?
        remember(connection, connection.query(sql, @query_flags))
      rescue Exception => error # standard:disable Lint/RescueException -- the server goes on with an interrupted one
        failed_over(connection) if Trilogy::Error === error && READ_ONLY.include?(error.error_code)
        raise unless connection.broken?
        unknown = Trilogy::Error === error && error.error_code.nil? && classification.takes_effect?(before)
        lose(connection, error, unknown:)
        raise unless unknown
        raise OutcomeUnknown.of(error)
      end

      def failed_over(connection)
        connection.leave_state("the server is read-only")
        connections.outdate
      end

      # @param error [Exception, nil] with which the connection was lost; nil: its fiber is killed
      # @param unknown [Boolean] whether the server may still be committing what it has got
      def lose(connection, error, unknown: false)
        if connection.equal?(@pinned)
          @lost = what_is_lost(connection)
          @pinned = nil
          @residue.forget
        end
        connections.kill(connection, later: error.nil?) if unknown || given_up?(error)
      ensure
        connections.drop(connection, self)
      end

      def what_is_lost(connection)
        return "the transaction" if connection.in_transaction?
        "the session state (#{connection.state})" if connection.state
      end

      # The server may still execute the statement. In all other cases it was the one that ended the connection.
      def given_up?(error)
        return true unless Trilogy::Error === error
        case error
        when Trilogy::EOFError, Trilogy::ConnectionClosed, Trilogy::SSLError, SystemCallError then false
        else error.error_code.nil?
        end
      end

      def remember(connection, result)
        @server_status = connection.status
        @warning_count = connection.warnings
        @last_insert_id = result.last_insert_id if result.last_insert_id
        @affected_rows = result.affected_rows if result.affected_rows
        result
      end

      def with_pinned(&)
        connection = @pinned
        connection.with_client(&).tap { @server_status = connection.status }
      rescue Exception => error # standard:disable Lint/RescueException -- as for statements
        lose(connection, error) if connection.broken?
        raise
      end

      def in_session(what, &)
        in_turn do
          hold(what).leave_state(what)
          with_pinned(&)
        end
      end
    end
  end
end
