# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The messages of one connection, by libpq: sends statements, each with its own Sync, and receives their results in
    # the same order. In libpq's pipeline mode several are in flight at once. A statement that is alone on the
    # connection goes without that mode, as in pg, at half the processor time.
    #
    #   wire = Wire.new(pg)
    #   wire.exchange(statement, name, clock) if (name = wire.single(statement))
    #   wire.transmit(statement)                          # to libpq, which may buffer it
    #   wire.flush { wire.receive(now, finished) }        # to the server; the block reads what arrives meanwhile
    #   wire.receive(now, finished)                       # finished gets the statements whose results are complete
    #
    # {PipelinedConnection} decides what is sent when, by which fiber, and what an error means.
    # @api private
    class Wire
      include MonotonicClock

      # Whether libpq can send many messages in one packet.
      COALESCES = PG::Connection.method_defined?(:send_pipeline_sync)

      # Command tags after which the server has no prepared statements.
      UNNAMING = ["DISCARD ALL", "DEALLOCATE ALL"].freeze

      # Severities of messages, to no statement, by which the server announces the end of a connection.
      LAST_WORDS = %w[FATAL PANIC].freeze

      # Transaction statuses in which no DEALLOCATE is sent: one that fails would abort the transaction.
      IN_TRANSACTION = [PG::PQTRANS_INTRANS, PG::PQTRANS_INERROR].freeze
      private_constant :UNNAMING, :LAST_WORDS, :IN_TRANSACTION

      # @return [PG::Connection]
      attr_reader :pg
      # @return [IO]
      attr_reader :io
      # @return [Array<Statement>] those in flight, in the order of their results
      attr_reader :sent
      # @return [Names] of the server's prepared statements
      attr_reader :names
      # @return [Float] when the running statement began, on the monotonic clock; without one: when the last one ended
      attr_reader :head_since
      # @return [String, nil] the message by which the server announced the end of the connection
      attr_reader :last_words
      # @param asked [Boolean] whether the user has asked for results in single rows, or in chunks
      attr_writer :partial

      # @param pg [PG::Connection] connected
      # @param names [Boolean] whether named prepared statements last in its session
      # @param deallocates [Boolean] whether DEALLOCATE works with these names; a pooler gives the server other ones
      def initialize(pg, names: true, deallocates: true)
        @pg = pg
        @io = pg.socket_io
        @named = names
        @deallocates = deallocates
        @names = Names.new
        @sent = []
        @head_since = 0.0
        @partial = false
        @notices = @last_words = nil
        pg.set_notice_receiver { |notice| notify(notice) }
        pg.sync_setnonblocking(true)
        pipeline
      end

      # @param statement [Statement]
      # @return [String, true, nil] its prepared statement's name; true: it needs none; nil: it needs the pipeline
      def single(statement)
        return if statement.opening || statement.check || (statement.types && !statement.key)
        ready(statement.key, statement.since)
      end

      # @param key [Object, nil] of a prepared statement
      # @param since [Float] it must be newer than this, on the monotonic clock
      # @return [String, true, nil] as {#single}
      def ready(key, since)
        return if @names.given_up > 0 || @pg.status == PG::CONNECTION_BAD
        key ? @names.find(key, since:) : true
      end

      # Sends a read and waits for its result.
      # @param read [Read]
      # @param name [String, true] see {#ready}
      # @param time [Float] now, on the monotonic clock
      # @return [PG::Result]
      # @raise [PG::Error] the server's error, or the loss of the connection
      def ask(read, name, time)
        leave_pipeline
        @notices = nil
        @head_since = time
        query_plainly(read, (name unless name == true))
        read.sent = true
        @pg.async_get_last_result || raise(PG::ConnectionBad, @pg.error_message)
      end

      # The result of a read has arrived.
      # @param arrived [Float] the earliest time at which it did
      # @return [void]
      def heard(arrived)
        @head_since = arrived if arrived > @head_since
      end

      # Finds out how far an interrupted {#ask} got.
      # @param read [Read]
      # @return [:unsent, :sent, :torn] as {#interrupted}
      def progress(read)
        active = @pg.transaction_status == PG::PQTRANS_ACTIVE
        return :unsent unless active || read.sent
        (active && read.sent && flushed?) ? :sent : :torn
      rescue PG::Error
        :torn
      end

      # @param statement [Statement] what a read has become
      # @param result [PG::Result]
      # @param arrived [Float] the earliest time at which that arrived
      # @param read [Float] when it was read
      # @return [void]
      def answered(statement, result, arrived, read)
        took(statement, result)
        @sent.clear
        book(statement, arrived, read)
      end

      # Sends a statement and waits for its result. Then call {#exchanged}.
      # @param statement [Statement]
      # @param name [String, true] see {#single}
      # @return [void] when the statement has its result or error
      # @raise [PG::Error] if the connection was lost
      def exchange(statement, name)
        leave_pipeline
        @notices = nil
        statement.sending(false)
        submit(statement, (name unless name == true)) or return
        result = @pg.async_get_last_result
        took(statement, result) if result
        raise PG::ConnectionBad, @pg.error_message if result.nil? && @pg.status == PG::CONNECTION_BAD
      rescue PG::Error => error
        result = error.result or raise
        took(statement, result)
        raise PG::ConnectionBad, @pg.error_message if @pg.status == PG::CONNECTION_BAD
      end

      # @param statement [Statement] the one of {#exchange}
      # @param arrived [Float] earliest time at which its result arrived
      # @return [void]
      def exchanged(statement, arrived)
        @sent.clear
        book(statement, arrived, now)
      end

      # Finds out how far an interrupted {#exchange} got.
      # @param statement [Statement]
      # @return [:unsent, :sent, :torn] sent: its result must still be read; torn: the connection can't be used any more
      def interrupted(statement)
        active = @pg.transaction_status == PG::PQTRANS_ACTIVE
        return (active && flushed?) ? :sent : :torn if @sent.first.equal?(statement)
        (active || statement.ended_at) ? :torn : :unsent
      rescue PG::Error
        :torn
      end

      # Passes a statement to libpq. At each moment it is in a list, so that an interrupt can't lose it.
      # @param statement [Statement]
      # @param refused [Exception, nil] error with which it fails; then only its Sync is sent
      # @yield when it is in {#sent}: takes it out of the other list
      # @return [void]
      def transmit(statement, refused = nil)
        @sent << statement
        yield if block_given?
        statement.sent_at = now
        @head_since = statement.started_at = statement.sent_at if @sent.size == 1
        refused ? statement.refuse(refused) : compose(statement)
        synchronize
      end

      # Sends DEALLOCATE for the names that were given up, each in a group of its own. In the group of another statement
      # it would take its transaction's snapshot (before a LOCK, for example), VACUUM would be refused, and a missing
      # name would make the statement fail. It comes before the next statement: another thread may give up the name of
      # that one, which must last until it was executed.
      # @return [void]
      def tidy
        return if @names.given_up.zero? || !@deallocates || IN_TRANSACTION.include?(@pg.transaction_status)
        @names.take_given_up.each { |name| transmit(Statement.orphan("DEALLOCATE #{name}")) }
      end

      # Sends what libpq has buffered. It reads meanwhile, since a server stops reading while its results are not read.
      # @yield when there is something to read
      # @return [void]
      def flush
        until @pg.sync_flush
          ready = @io.wait(IO::READABLE | IO::WRITABLE, nil) # a single argument would be seconds
          yield if ready & IO::READABLE != 0
        end
      end

      # Reads the results that have arrived.
      # @param arrived [Float] earliest time at which they arrived
      # @param finished [Array<Statement>] gets the statements whose results are complete
      # @return [void]
      def receive(arrived, finished)
        @pg.consume_input
        read = now
        until @sent.empty? || @pg.is_busy
          result = @pg.sync_get_result
          head = @sent.first
          if result.nil?
            raise PG::ConnectionBad, @pg.error_message if @pg.status == PG::CONNECTION_BAD
            next head.stepped unless plain?
            finished << book(@sent.shift, arrived, read)
          elsif (status = result.result_status) == PG::PGRES_PIPELINE_SYNC
            result.clear
            finished << book(@sent.shift, arrived, read)
            @sent.first&.started_at = @head_since
          else
            took(head, result, status)
          end
        end
      end

      # @return [Boolean] whether a pooler has {Names::MAX_PREPARED} given-up names for it, which can't be deallocated
      def worn? = !@deallocates && @names.given_up >= Names::MAX_PREPARED

      # Probes the socket, while no statement is in flight.
      # @return [void]
      # @raise [PG::ConnectionBad] if the server has ended it
      def look
        @pg.consume_input while @io.wait_readable(0)
        @pg.is_busy
        raise PG::ConnectionBad, @last_words if @last_words # the end of the stream may arrive later
      end

      # @return [Boolean] whether it is out of pipeline mode, so that results may be unread
      def plain? = @pg.pipeline_status == PG::PQ_PIPELINE_OFF

      # Leaves pipeline mode, for calls that it does not allow.
      # @param notices [Proc, nil] gets the notices from then on
      # @return [PG::Connection]
      def plain(notices = nil)
        leave_pipeline
        @notices = notices
        @pg
      end

      # Enters pipeline mode.
      # @return [void]
      def pipeline
        return unless plain?
        @notices = nil
        raise PG::ConnectionBad, "no connection to the server" if @pg.status == PG::CONNECTION_BAD
        forget_partial_mode if @partial
        flush_each(false)
        @pg.enter_pipeline_mode
      end

      private

      def leave_pipeline
        return if plain?
        @pg.exit_pipeline_mode
        flush_each(true)
      end

      # Not by pg's setnonblocking, which defines singleton methods on the connection each time: YJIT compiles no calls
      # of a class of which one object has singleton methods.
      if PG::Connection.private_method_defined?(:flush_data=)
        def flush_each(flush) = @pg.__send__(:flush_data=, flush)
      else
        def flush_each(flush) = @pg.setnonblocking(!flush)
      end

      # @return [Boolean] whether it was sent
      def submit(statement, name)
        statement.sent_at = @head_since = statement.started_at = now
        query_plainly(statement, name)
        @sent << statement
        true
      rescue PG::ConnectionBad, SystemCallError, IOError
        raise
      rescue StandardError, ScriptError => error # a parameter can't be encoded
        raise if PG::Error === error && (!(PG::UnableToSend === error) || @pg.status == PG::CONNECTION_BAD)
        statement.refuse(error)
        false
      end

      # @return [Boolean] whether all was sent; after a part of it the outcome is unknown
      def flushed? = @pg.sync_flush

      def book(statement, arrived, read)
        statement.ended_at = arrived
        statement.read_at = read
        @head_since = arrived if arrived > @head_since
        statement
      end

      # libpq ends single-row mode with the next query, except in a pipeline, where that query's rows would be dropped.
      def forget_partial_mode
        @pg.exec("")
        @partial = false
      end

      # Called from within libpq: no exception may leave it. The receiver blocks, so no other fiber uses the connection.
      def notify(notice)
        statement = @sent.first
        return if statement && statement.session_defaults.nil? # a statement of our own
        listener = statement ? statement.notices : @notices
        if listener.nil? && LAST_WORDS.include?(notice.error_field(PG::PG_DIAG_SEVERITY_NONLOCALIZED))
          return @last_words = notice.error_message
        end
        Fiber.blocking { listener ? listener.call(notice) : $stderr.write(notice.error_message) } # libpq's default
      rescue => error
        statement&.refuse(error)
      end

      def compose(statement)
        name = (@names.find(statement.key, since: statement.since) if statement.key)
        statement.sending(statement.parsed? && !name)
        @pg.send_query_params(statement.opening, Statement::NONE) if statement.opening
        name ||= prepare(statement) if statement.parsed?
        # Encoders are user code, which must not let another fiber send.
        statement.params.empty? ? query(statement, name) : Fiber.blocking { query(statement, name) }
      rescue PG::ConnectionBad, SystemCallError, IOError
        raise
      rescue PG::UnableToSend => error
        raise if @pg.status == PG::CONNECTION_BAD
        statement.refuse(error)
      rescue StandardError, ScriptError => error # a parameter can't be encoded
        statement.refuse(error)
      end

      def synchronize = COALESCES ? @pg.send_pipeline_sync : @pg.sync_pipeline_sync

      # Out of pipeline mode a text that was given without parameters goes as by pg's exec: with one message, and fewer
      # responses. (With an empty array it goes as exec_params does.) Several statements would be executed so; without
      # a semicolon there is one, whatever it was taken for.
      def query_plainly(statement, name)
        sql = statement.sql
        return query(statement, name) if name || statement.encoders || statement.format != 0 ||
          !statement.params.equal?(Statement::NONE) || !sql.encoding.ascii_compatible? || sql.include?(";")
        @pg.send_query(sql)
      end

      def query(statement, name)
        if name
          @pg.send_query_prepared(name, statement.params, statement.format, statement.encoders)
        else
          @pg.send_query_params(statement.sql, statement.params, statement.format, statement.encoders)
        end
      end

      def prepare(statement)
        return unnamed(statement) unless @named && statement.key
        name = @names.next
        @pg.send_prepare(name, statement.sql, statement.types)
        @names.add(statement.key, name, at: statement.sent_at)
        statement.naming
        name
      end

      # Prepares it for one execution.
      def unnamed(statement)
        @pg.send_prepare("", statement.sql, statement.types)
        ""
      end

      def took(statement, result, status = result.result_status)
        case status
        when PG::PGRES_COMMAND_OK then @names.clear if UNNAMING.include?(result.cmd_status)
        when PG::PGRES_FATAL_ERROR
          forget(statement, result.error_field(PG::PG_DIAG_SQLSTATE)) if statement.key
        when PG::PGRES_PIPELINE_ABORTED # its BEGIN has failed
          @names.give_up(statement.key, known: false) if statement.key && statement.step == :prepare
        end
        statement.took(result, status)
      end

      # Gives up the name of a statement whose plan is stale, or whose name the server does not have: it is prepared
      # again the next time.
      def forget(statement, state)
        return unless statement.step == :prepare || state == "0A000" || state == "26000"
        @names.give_up(statement.key, known: state == "0A000")
      end
    end
  end
end
