# frozen_string_literal: true

require "timeout"

module NeverBlock
  class Postgres
    # Decides what happens to a connection between two users: it goes to the next, is audited or reset first
    # ({SessionReset}), or is closed.
    #
    #   upkeep = Upkeep.new(pool, journal, audit:, definitions:)
    #   upkeep.settle(connection)                                  # a statement or lease has ended on it
    #   upkeep.give_back(connection, clean: false, discard: true)  # a lease has ended, and left session state
    #   upkeep.tend(connection)                                    # a fiber has stopped waiting on it
    #
    # @api private
    class Upkeep
      # @param pool [Pool]
      # @param journal [Journal]
      # @param audit [Audit]
      # @param definitions [Definitions]
      # @param catalogue [Catalogue, nil]
      # @param tally [Tally]
      # @param always [Boolean] whether a connection is audited after each lease
      # @param pooled [Boolean] whether sessions are a pooler's, which we can't reset
      def initialize(pool, journal, audit:, definitions:, catalogue: nil, tally: Tally.new, always: false,
        pooled: false)
        @pool = pool
        @journal = journal
        @audit = audit
        @definitions = definitions
        @catalogue = catalogue
        @tally = tally
        @always = always
        @pooled = pooled
      end

      # @param connection [PipelinedConnection] one on which a statement or lease has ended
      # @return [void]
      def settle(connection)
        if connection.idle? && connection.broken.nil?
          return connection.put_off = true if connection.asking
          return discard(connection) if connection.stale || connection.transaction_status != PG::PQTRANS_IDLE
          due = connection.suspect || overdue?(connection)
          if due && @pool.hold(connection) { connection.idle? && !connection.restoring? }
            return Background.run { restore(connection, audit: true) }
          end
        end
        @pool.drain(connection) { true } if connection.stale # so that it gets idle
        @pool.settle(connection)
      end

      # @param connection [PipelinedConnection] one whose lease has ended
      # @param clean [Boolean] whether the session is unchanged
      # @param discard [Boolean] whether it may have session state
      # @param settings [Array<String>, nil] the changed settings, if there is no other session state
      # @return [void]
      def give_back(connection, clean:, discard:, settings: nil)
        return discard(connection) if connection.stale || (@pooled && discard && !clean)
        return settle(connection) if clean && !@always
        Background.run { restore(connection, discard, audit: @always, settings:) }
      end

      # Closes a connection that must not be used again.
      # @param connection [PipelinedConnection]
      # @return [void]
      def discard(connection)
        connection.break_off(ClosedError
          .new("this connection was closed: its session state could not be reset, or is unknown"), trusted: false)
      end

      # Closes a connection once its running statement is cancelled. A background task closes it; until then the
      # connection counts toward the limit.
      # @param connection [PipelinedConnection] one whose lease has ended, and which must not be used again
      # @param busy [Boolean] whether another fiber is using it, such as in a COPY
      # @return [void]
      def retire(connection, busy:)
        @definitions.altered # the user's code may have changed one
        return discard(connection) unless connection.runs?
        @pool.hold(connection) { true }
        Background.run do
          busy ? Timeout.timeout(SessionReset::TIMEOUT) { connection.pg.cancel } : SessionReset.new(connection).give_up
        rescue Timeout::Error, ThreadError, PG::Error
          nil # it does not answer, or is lost, or Ruby is exiting and makes no threads
        ensure
          discard(connection)
        end
      end

      # A fiber has stopped waiting on a connection. If no other is left to read the abandoned statements, resets it.
      # @param connection [PipelinedConnection, nil]
      # @return [void]
      def tend(connection)
        return if connection.nil? || connection.idle? || !connection.deserted?
        free = @pool.hold(connection) do
          !connection.idle? && connection.deserted? && !connection.leased? && !connection.restoring?
        end
        # An inquiry means that its reported settings are in doubt.
        Background.run { connection.inquiry ? discard(connection) : restore(connection) } if free
      end

      # Audits the idle connections that were used since their last audit, one by one. {Janitor}'s thread calls it.
      # @return [void]
      def look_around
        @pool.connections.dup.each do |connection|
          next unless @pool.hold(connection) { @pool.router.unseen?(connection) }
          connection.age.heard(connection.heard)
          restore(connection, audit: true)
          connection.age.asked(connection.audited_at) # an audit does not count as a use
        end
      rescue PG::Error, ClosedError => error
        @journal.say("the session state of a connection could not be audited: #{error.message}")
      end

      private

      # Under load a connection may never be idle when {Janitor} calls, so each end of a statement checks it too.
      def overdue?(connection)
        Scheduler.current && Clock.now - connection.audited_at > Janitor::INTERVAL
      end

      # Cancels the statements on it, resets its session, and settles it; discards it if that fails.
      def restore(connection, discard = false, audit: false, settings: nil)
        @pool.hold(connection) { true }
        suspect = connection.suspect
        @tally.audits += 1 if audit || suspect
        @tally.restored += 1 if discard || suspect
        restored = SessionReset.new(connection, discard, (@audit if audit || suspect), @catalogue, settings:) do |what|
          @journal.leak(what, suspect)
        end.run
        restored ? settle(connection) : discard(connection)
      ensure
        discard(connection) if restored.nil?
      end
    end
  end
end
