# frozen_string_literal: true

require "timeout"

module NeverBlock
  class Postgres
    # Makes a connection as it was when it was new: what still runs is cancelled, a transaction rolled back, the session's state
    # discarded, its session defaults applied and checked. What a lease has set is reset by name ({Resets}), and after a statement that may have
    # left something ({Reach}) all settings are: then the statements that were parsed keep their names.
    # @api private
    class SessionReset
      # Seconds that all of it may take.
      TIMEOUT = 10

      # @param connection [PipelinedConnection] which nobody else uses
      # @param discard [Boolean] whether the session may keep something beyond its transaction
      # @param audit [Audit]
      # @param catalogue [Catalogue, nil] that is asked too, if nobody has lately
      # @param settings [Array<String>, nil] that are all that the session keeps: {Resets}
      # @yieldparam difference [String] what it keeps and should not
      def initialize(connection, discard = true, audit = nil, catalogue = nil, settings: nil, &tell)
        @connection = connection
        @discard = discard
        @audit = audit
        @catalogue = catalogue
        @settings = settings
        @tell = tell
      end

      # @return [Boolean] false: it is not to be trusted
      def run
        Timeout.timeout(TIMEOUT) { restored? }
      rescue Timeout::Error, ThreadError
        false # while Ruby ends it makes no threads, and Timeout may need one
      end

      # Ends what was sent by the simple protocol, or by user's code, and is waited for no more: several statements in one text,
      # a COPY. A request to cancel that comes between two statements is in vain, and so there is one after the other.
      # @return [void]
      # @raise [PG::Error] if the connection goes meanwhile
      def give_up
        Timeout.timeout(TIMEOUT) { give_up_once while @connection.runs? }
      end

      # Of the server, on a connection that is idle.
      # @return [Boolean]
      def answers?
        Timeout.timeout(TIMEOUT) { ask("SELECT 1") }
      rescue Timeout::Error, ThreadError, PG::Error, IOError, SystemCallError, Error
        false
      end

      private

      def give_up_once
        @connection.pg.cancel
        Timeout.timeout(PipelinedConnection::RECANCEL_AFTER) { @connection.pg.discard_results } # of a COPY too
      rescue Timeout::Error
        nil # that one was in vain
      end

      def restored?
        give_up_once while @connection.idle? && @connection.runs?
        return false unless calm
        ask("ROLLBACK") unless @connection.transaction_status == PG::PQTRANS_IDLE
        return false unless @connection.transaction_status == PG::PQTRANS_IDLE
        @discard = false if @discard && @settings && reset?
        return false if @discard && !discarded?
        return false unless as_it_was?
        ask_catalogue if @connection.suspect && @catalogue&.wanted?
        @connection.suspect = nil
        @connection.names.undoubted
        true
      rescue PG::Error, IOError, SystemCallError, Error # of ours: why the connection was closed meanwhile
        false
      end

      # What is set again and the question what is kept go out together.
      def as_it_was?
        state = nil
        return false unless ask(*settings, *@audit&.sql) { |result| state = @audit&.read(result) || {} }
        return false if reloaded? # it means something else than new ones, and no statement is to blame
        difference = @connection.reported.leak || @audit&.difference(@connection.baseline, state)
        @tell&.call(difference) if difference
        @connection.audited_at = now if @audit || @discard
        difference.nil?
      end

      # Through a pooler another session would be asked, and its connections have no defaults.
      def reloaded?
        what = @connection.reported.leak or return false
        names = @connection.reported.leaks
        return false unless @connection.server_defaults && Inquiry.open?(@connection, names)
        inquiry = Inquiry.new(names, what, [])
        @connection.push(inquiry.question)
        @connection.flush
        drain && !inquiry.leak?
      end

      # A request to cancel is sent only where nothing else runs, and the connection is used again only after a Sync that was
      # sent later was answered.
      def calm
        return true if @connection.idle?
        @connection.give_up
        ask("SELECT 1")
      end

      # Whatever is doubtful is discarded.
      def reset?
        return false if @connection.suspect
        resets = Resets.new(@settings, @connection)
        ask(resets.statement, *(session_defaults if resets.again?)) && resets.undone?
      end

      def discarded?
        return false unless ask("DISCARD ALL")
        @connection.names.clear
        nil while @connection.pg.notifies # what it listened to before
        true
      end

      def settings
        return session_defaults if @discard
        @connection.suspect ? ["RESET ALL", *session_defaults] : Statement::NONE
      end

      def session_defaults
        encoding = @connection.session_defaults.encoding
        [*@connection.session_defaults.statements, *("SET client_encoding TO '#{encoding.gsub("'", "''")}'" if encoding)]
      end

      # All in one go.
      # @param all [Array<String, Statement>]
      # @yieldparam result [PG::Result] of the last
      def ask(*all)
        statements = all.map { |one| (String === one) ? Statement.orphan(one) : one }
        statements.each { |statement| @connection.push(statement) }
        @connection.flush
        return false unless drain && statements.all? { |statement| statement.error.nil? }
        block_given? ? yield(statements.last&.result) : true
      end

      # Outside of a loop nothing else does.
      def ask_catalogue
        @catalogue.refresh do |sql|
          statement = Statement.orphan(sql, opening: Catalogue::OPENING)
          @connection.push(statement)
          @connection.flush
          raise @connection.broken unless drain
          statement.value
        end
      end

      def drain
        until @connection.idle? || @connection.broken
          @connection.read_once
        end
        !@connection.broken
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
