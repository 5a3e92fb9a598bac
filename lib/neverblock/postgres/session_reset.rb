# frozen_string_literal: true

require "timeout"

module NeverBlock
  class Postgres
    # Resets a session: cancels running statements, rolls back a transaction, discards the session state, applies the
    # session defaults, and audits the outcome. If a lease has only changed settings, they are reset by name ({Resets}).
    # After a statement that may have left session state ({Reach}) all settings are reset. Prepared statements stay.
    #
    #   SessionReset.new(connection, true, audit).run   # => true: the connection may serve others
    # @api private
    class SessionReset
      include MonotonicClock

      # Seconds for the whole reset.
      TIMEOUT = 10

      # @param connection [PipelinedConnection] one that is held for it
      # @param discard [Boolean] whether there may be session state
      # @param audit [Audit, nil] nil: no audit
      # @param catalogue [Catalogue, nil] is read too, if it is out of date
      # @param settings [Array<String>, nil] the changed settings, if there is no other session state: {Resets}
      # @yieldparam difference [String] session state that was left after the reset
      def initialize(connection, discard = true, audit = nil, catalogue = nil, settings: nil, &tell)
        @connection = connection
        @discard = discard
        @audit = audit
        @catalogue = catalogue
        @settings = settings
        @tell = tell
      end

      # @return [Boolean] false: close the connection
      def run
        Timeout.timeout(TIMEOUT) { restored? }
      rescue Timeout::Error, ThreadError
        false # while Ruby exits it makes no threads, and Timeout may need one
      end

      # Cancels what was sent out of pipeline mode or by user's code: several statements in one text, a COPY. A request
      # to cancel that arrives between two statements has no effect, so it is repeated.
      # @return [void]
      # @raise [PG::Error] if the connection is lost meanwhile
      def give_up
        Timeout.timeout(TIMEOUT) { give_up_once while @connection.runs? }
      end

      # @return [Boolean] whether the server answers on the idle connection
      def answers?
        Timeout.timeout(TIMEOUT) { ask("SELECT 1") }
      rescue Timeout::Error, ThreadError, PG::Error, IOError, SystemCallError, Error
        false
      end

      private

      def give_up_once
        @connection.pg.cancel
        @connection.inside_libpq do
          Timeout.timeout(PipelinedConnection::RECANCEL_AFTER) { @connection.pg.discard_results } # of a COPY too
        end
      rescue Timeout::Error
        nil # this request had no effect
      end

      def restored?
        give_up_once while @connection.idle? && @connection.runs?
        return false unless calm
        ask("ROLLBACK") unless @connection.transaction_status == PG::PQTRANS_IDLE
        return false unless @connection.transaction_status == PG::PQTRANS_IDLE
        @discard = false if @discard && @settings && reset?
        return false if @discard && !discarded?
        return false unless as_new?
        ask_catalogue if @connection.suspect && @catalogue&.wanted?
        @connection.suspect = nil
        @connection.names.trust
        true
      rescue PG::Error, IOError, SystemCallError, Error # of ours: why the connection was closed meanwhile
        false
      end

      # Sends the session defaults and the audit together.
      def as_new?
        state = nil
        return false unless ask(*settings, *@audit&.sql) { |result| state = @audit&.read(result) || {} }
        return false if reloaded? # a new session would differ from it, and no statement is to blame
        difference = @connection.reported.leak || @audit&.difference(@connection.baseline, state)
        @tell&.call(difference) if difference
        @connection.audited_at = now if @audit || @discard
        difference.nil?
      end

      # Behind a pooler another session would answer; such connections have no server defaults.
      # @return [Boolean] whether the reported settings differ because the server's configuration was reloaded
      def reloaded?
        what = @connection.reported.leak or return false
        names = @connection.reported.leaks
        return false unless @connection.server_defaults && Inquiry.open?(@connection, names)
        inquiry = Inquiry.new(names, what, [])
        @connection.push(inquiry.question)
        @connection.flush
        drain && !inquiry.leak?
      end

      # Cancels the statements. The connection is used again only after a later statement was answered, so that no
      # request to cancel is still on its way.
      def calm
        return true if @connection.idle?
        @connection.give_up
        ask("SELECT 1")
      end

      # Resets the changed settings by name, unless a statement may have left other session state.
      def reset?
        return false if @connection.suspect
        resets = Resets.new(@settings, @connection)
        ask(resets.statement, *(session_defaults if resets.again?)) && resets.undone?
      end

      def discarded?
        return false unless ask("DISCARD ALL")
        @connection.names.clear
        nil while @connection.pg.notifies # drops notifications of an earlier LISTEN
        true
      end

      def settings
        return session_defaults if @discard
        @connection.suspect ? ["RESET ALL", *session_defaults] : Statement::NONE
      end

      def session_defaults
        encoding = @connection.session_defaults.encoding
        [*@connection.session_defaults.statements,
          *("SET client_encoding TO '#{encoding.gsub("'", "''")}'" if encoding)]
      end

      # Sends statements together, and waits for all results.
      # @param all [Array<String, Statement>]
      # @yieldparam result [PG::Result] the last one's
      # @return [Boolean, Object] false if one has failed; the block's value
      def ask(*all)
        statements = all.map { |one| (String === one) ? Statement.orphan(one) : one }
        statements.each { |statement| @connection.push(statement) }
        @connection.flush
        return false unless drain && statements.all? { |statement| statement.error.nil? }
        block_given? ? yield(statements.last&.result) : true
      end

      # Outside of a loop the catalogue is read only here.
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
    end
  end
end
