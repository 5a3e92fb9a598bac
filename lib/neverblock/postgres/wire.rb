# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The messages of one connection, by libpq: statements out, each with a Sync of its own, and their answers in, in the same order.
    # Several are on their way at once in libpq's pipeline mode. One that has the connection by itself is exchanged for its answer without
    # that mode, as pg does it, at half the processor time.
    #
    #   wire = Wire.new(pg)
    #   wire.exchange(statement, name, clock) if (name = wire.single(statement))
    #   wire.transmit(statement)                          # to libpq, which may keep it
    #   wire.flush { wire.receive(now, finished) }        # to the server; the block reads what comes meanwhile
    #   wire.receive(now, finished)                       # finished gets the statements that were answered
    #
    # {PipelinedConnection} says what is sent and when, by which fiber, and what an error means.
    # @api private
    class Wire
      # Many messages in one packet.
      COALESCES = PG::Connection.method_defined?(:send_pipeline_sync)

      # What they answer after which the server knows none of the names.
      UNNAMING = ["DISCARD ALL", "DEALLOCATE ALL"].freeze

      # What the server says, to no statement, before it ends a connection.
      LAST_WORDS = %w[FATAL PANIC].freeze

      # In a transaction, which a DEALLOCATE that fails would end.
      IN_TRANSACTION = [PG::PQTRANS_INTRANS, PG::PQTRANS_INERROR].freeze
      private_constant :UNNAMING, :LAST_WORDS, :IN_TRANSACTION

      # @return [PG::Connection]
      attr_reader :pg
      # @return [IO]
      attr_reader :io
      # @return [Array<Statement>] that were sent and have not been answered
      attr_reader :sent
      # @return [Names] of the statements that the server has parsed
      attr_reader :names
      # @return [Float] since when the first of those that were sent runs
      attr_reader :head_since
      # @return [String, nil] what the server has said before it ended the connection
      attr_reader :last_words
      # @param asked [Boolean] whether user's code has asked for results in single rows, or in chunks
      attr_writer :partial

      # @param pg [PG::Connection] connected
      # @param names [Boolean] whether the session keeps statements' names
      # @param deallocates [Boolean] whether the server knows them too: a pooler gives it others
      def initialize(pg, names: true, deallocates: true)
        @pg = pg
        @io = pg.socket_io
        @keeps_names = names
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
      # @return [String, true, nil] the name that it goes by, true where it has none; nil: it takes several messages, or others come first
      def single(statement)
        return if statement.opening || statement.check || @names.given_up > 0 || @pg.status == PG::CONNECTION_BAD
        return @names.find(statement.key, since: statement.since) if statement.key
        true unless statement.types
      end

      # Sends it, and waits for its answer.
      # @param statement [Statement]
      # @param name [String, true] see {#single}
      # @return [void] when the statement has its answer, or what there is instead; it is to be booked
      # @raise [PG::Error] where the connection is gone
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

      # @param statement [Statement] that was exchanged
      # @param arrived [Float] its answer was not there before this time
      # @return [void]
      def exchanged(statement, arrived)
        @sent.clear
        book(statement, arrived, now)
      end

      # What an exception from outside has made of an exchange.
      # @param statement [Statement]
      # @return [:unsent, :sent, :torn] sent: its answer is yet to be read; torn: the connection can't go on
      def interrupted(statement)
        active = @pg.transaction_status == PG::PQTRANS_ACTIVE
        return (active && flushed?) ? :sent : :torn if @sent.first.equal?(statement)
        (active || statement.ended_at) ? :torn : :unsent
      rescue PG::Error
        :torn
      end

      # Nothing may interrupt it where the statement is in neither list.
      # @param statement [Statement]
      # @param refused [Exception, nil] why only its Sync is sent
      # @yield when it is in the list of those that were sent
      # @return [void]
      def transmit(statement, refused = nil)
        @sent << statement
        yield if block_given?
        statement.sent_at = now
        @head_since = statement.started_at = statement.sent_at if @sent.size == 1
        refused ? statement.refuse(refused) : compose(statement)
        synchronize
      end

      # The server forgets the names that were given up, each in a group of its own: in that of another statement it would take the snapshot
      # of its transaction, before a LOCK, say; VACUUM would be refused; and where the server has no such name, that statement would fail.
      # Another thread may give up the name of the statement that is sent next: it is to last for this once, and so this comes before.
      # @return [void]
      def tidy
        return if !@deallocates || IN_TRANSACTION.include?(@pg.transaction_status)
        @names.take_given_up.each { |name| transmit(Statement.orphan("DEALLOCATE #{name}")) }
      end

      # Reads while it writes: a server takes no more statements where its answers are not taken.
      # @yield where there is something to read
      # @return [void]
      def flush
        until @pg.sync_flush
          ready = @io.wait(IO::READABLE | IO::WRITABLE, nil) # with one argument that would be seconds
          yield if ready & IO::READABLE != 0
        end
      end

      # @param arrived [Float] what has come was not there before this time
      # @param finished [Array<Statement>] gets those whose Sync was answered
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
          elsif result.result_status == PG::PGRES_PIPELINE_SYNC
            result.clear
            finished << book(@sent.shift, arrived, read)
            @sent.first&.started_at = @head_since
          else
            took(head, result)
          end
        end
      end

      # @return [Boolean] whether a pooler keeps as many names for it that were given up as one connection has at most
      def worn? = !@deallocates && @names.given_up >= Names::MAX_PREPARED

      # What has come is looked at, where nothing was sent.
      # @return [void]
      # @raise [PG::ConnectionBad] if the server has ended it
      def look
        @pg.consume_input while @io.wait_readable(0)
        @pg.is_busy
        raise PG::ConnectionBad, @last_words if @last_words # on a busy machine its end comes later
      end

      # @return [Boolean] whether it is out of pipeline mode, so that results may be left to read
      def plain? = @pg.pipeline_status == PG::PQ_PIPELINE_OFF

      # Leaves pipeline mode, for what does not go with it.
      # @param notices [Proc, nil] what gets those of all that is done then
      # @return [PG::Connection]
      def plain(notices = nil)
        leave_pipeline
        @notices = notices
        @pg
      end

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

      # By pg's setnonblocking the connection would get methods of its own each time, and for a class of which one object has its own YJIT
      # compiles no calls.
      if PG::Connection.private_method_defined?(:flush_data=)
        def flush_each(flush) = @pg.__send__(:flush_data=, flush)
      else
        def flush_each(flush) = @pg.setnonblocking(!flush)
      end

      # @return [Boolean] whether it was sent
      def submit(statement, name)
        statement.sent_at = @head_since = statement.started_at = now
        query(statement, name)
        @sent << statement
        true
      rescue PG::ConnectionBad, SystemCallError, IOError
        raise
      rescue StandardError, ScriptError => error # a parameter that has no encoding, or none that fits
        raise if PG::Error === error && (!(PG::UnableToSend === error) || @pg.status == PG::CONNECTION_BAD)
        statement.refuse(error)
        false
      end

      # What is on its way, in part, is not known to have been sent whole.
      def flushed? = @pg.sync_flush

      def book(statement, arrived, read)
        statement.ended_at = arrived
        statement.read_at = read
        @head_since = arrived if arrived > @head_since
        statement
      end

      # libpq leaves it when the next query is sent, except in a pipeline: that one's rows would be dropped.
      def forget_partial_mode
        @pg.exec("")
        @partial = false
      end

      # From within libpq, which no exception may leave; nor may others use it meanwhile, so the receiver does not wait as fibers do.
      def notify(notice)
        statement = @sent.first
        return if statement && statement.session_defaults.nil? # one of our own
        listener = statement ? statement.notices : @notices
        return @last_words = notice.error_message if listener.nil? && LAST_WORDS.include?(notice.error_field(PG::PG_DIAG_SEVERITY_NONLOCALIZED))
        Fiber.blocking { listener ? listener.call(notice) : $stderr.write(notice.error_message) } # as libpq does it where nothing listens
      rescue => error
        statement&.refuse(error)
      end

      def compose(statement)
        name = (@names.find(statement.key, since: statement.since) if statement.key)
        statement.sending(statement.parsed? && !name)
        @pg.send_query_params(statement.opening, Statement::NONE) if statement.opening
        name ||= prepare(statement) if statement.parsed?
        statement.params.empty? ? query(statement, name) : Fiber.blocking { query(statement, name) } # encoders run in it: a message of another fiber must not get between
      rescue PG::ConnectionBad, SystemCallError, IOError
        raise
      rescue PG::UnableToSend => error
        raise if @pg.status == PG::CONNECTION_BAD
        statement.refuse(error)
      rescue StandardError, ScriptError => error # a parameter that has no encoding, or none that fits
        statement.refuse(error)
      end

      def synchronize = COALESCES ? @pg.send_pipeline_sync : @pg.sync_pipeline_sync

      def query(statement, name)
        if name
          @pg.send_query_prepared(name, statement.params, statement.format, statement.encoders)
        else
          @pg.send_query_params(statement.sql, statement.params, statement.format, statement.encoders)
        end
      end

      def prepare(statement)
        return unnamed(statement) unless @keeps_names && statement.key
        name = @names.next
        @pg.send_prepare(name, statement.sql, statement.types)
        @names.add(statement.key, name, at: statement.sent_at)
        name
      end

      # For this once.
      def unnamed(statement)
        @pg.send_prepare("", statement.sql, statement.types)
        ""
      end

      def took(statement, result)
        if statement.key
          forget(statement, result.error_field(PG::PG_DIAG_SQLSTATE)) if result.result_status == PG::PGRES_FATAL_ERROR
          @names.give_up(statement.key, known: false) if result.result_status == PG::PGRES_PIPELINE_ABORTED && statement.step == :prepare # its BEGIN had failed
        end
        @names.clear if result.result_status == PG::PGRES_COMMAND_OK && UNNAMING.include?(result.cmd_status)
        statement.took(result)
      end

      # A statement whose plan is stale, or whose name is gone, is parsed anew the next time.
      def forget(statement, state)
        return unless statement.step == :prepare || state == "0A000" || state == "26000"
        @names.give_up(statement.key, known: state == "0A000")
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
