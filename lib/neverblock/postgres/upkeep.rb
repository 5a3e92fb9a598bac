# frozen_string_literal: true

require "timeout"

module NeverBlock
  class Postgres
    # What becomes of a connection between its users: it goes to the next, is looked at or restored first ({SessionReset}), or is closed.
    #
    #   upkeep = Upkeep.new(pool, journal, audit:, definitions:)
    #   upkeep.settle(connection)                                  # something has ended on it
    #   upkeep.give_back(connection, clean: false, discard: true)  # a lease is over, which has left something
    #   upkeep.tend(connection)                                    # no fiber may wait for what is left on it
    #
    # @api private
    class Upkeep
      # @param pool [Pool]
      # @param journal [Journal]
      # @param audit [Audit]
      # @param definitions [Definitions]
      # @param catalogue [Catalogue, nil]
      # @param tally [Tally]
      # @param always [Boolean] whether a connection is looked at after each lease
      # @param pooled [Boolean] whether sessions are a pooler's, which no reset mends
      def initialize(pool, journal, audit:, definitions:, catalogue: nil, tally: Tally.new, always: false, pooled: false)
        @pool = pool
        @journal = journal
        @audit = audit
        @definitions = definitions
        @catalogue = catalogue
        @tally = tally
        @always = always
        @pooled = pooled
      end

      # @param connection [PipelinedConnection] on which something has ended
      # @return [void]
      def settle(connection)
        if connection.idle? && connection.broken.nil?
          return connection.put_off = true if connection.asking
          return discard(connection) if connection.stale || connection.transaction_status != PG::PQTRANS_IDLE
          return Background.run { restore(connection, audit: true) } if (connection.suspect || overdue?(connection)) && @pool.hold(connection) { connection.idle? && !connection.restoring? }
        end
        @pool.drain(connection) { true } if connection.stale # so that it gets idle
        @pool.settle(connection)
      end

      # @param connection [PipelinedConnection] whose lease is over
      # @param clean [Boolean] whether it is as it was
      # @param discard [Boolean] whether it may keep something
      # @param settings [Array<String>, nil] that are all it may keep
      # @return [void]
      def give_back(connection, clean:, discard:, settings: nil)
        return discard(connection) if connection.stale || (@pooled && discard && !clean)
        return settle(connection) if clean && !@always
        Background.run { restore(connection, discard, audit: @always, settings:) }
      end

      # @param connection [PipelinedConnection] that is not to be used again
      # @return [void]
      def discard(connection) = connection.break_off(ClosedError.new("this connection was closed: it could not be trusted any more"), trusted: false)

      # What runs on it is given up first, by a task of its own; until it has ended it counts as a connection.
      # @param connection [PipelinedConnection] whose lease is over, and which is not to be used again
      # @param busy [Boolean] whether another fiber is in the midst of something on it
      # @return [void]
      def retire(connection, busy:)
        @definitions.altered # by what user's code has done on it, perhaps
        return discard(connection) unless connection.runs?
        @pool.hold(connection) { true }
        Background.run do
          busy ? Timeout.timeout(SessionReset::TIMEOUT) { connection.pg.cancel } : SessionReset.new(connection).give_up
        rescue Timeout::Error, ThreadError, PG::Error
          nil # it does not answer, or is gone, or Ruby ends and makes no threads
        ensure
          discard(connection)
        end
      end

      # The last fiber that waited on it may be gone, and what others have left behind on it is read by none.
      # @param connection [PipelinedConnection, nil]
      # @return [void]
      def tend(connection)
        return if connection.nil? || connection.idle? || !connection.deserted?
        free = @pool.hold(connection) { !connection.idle? && connection.deserted? && !connection.leased? && !connection.restoring? }
        Background.run { connection.inquiry ? discard(connection) : restore(connection) } if free # what it reports is in doubt
      end

      # Connections that are idle, and were used since they were looked at, are looked at, one after the other: from {Janitor}'s thread.
      # @return [void]
      def look_around
        @pool.connections.dup.each do |connection|
          next unless @pool.hold(connection) { @pool.router.unseen?(connection) }
          connection.age.heard(connection.heard)
          restore(connection, audit: true)
          connection.age.asked(connection.audited_at) # which is no use of it
        end
      rescue PG::Error, ClosedError => error
        @journal.say("what a connection keeps could not be looked at: #{error.message}")
      end

      private

      # Under load no connection may ever be idle when {Janitor} comes.
      def overdue?(connection) = Scheduler.current && Process.clock_gettime(Process::CLOCK_MONOTONIC) - connection.audited_at > Janitor::INTERVAL

      # Ends what still runs on it, and makes it as it was when it was new.
      def restore(connection, discard = false, audit: false, settings: nil)
        @pool.hold(connection) { true }
        suspect = connection.suspect
        @tally.audits += 1 if audit || suspect
        @tally.restored += 1 if discard || suspect
        restored = SessionReset.new(connection, discard, (@audit if audit || suspect), @catalogue, settings:) { |what| @journal.leak(what, suspect) }.run
        restored ? settle(connection) : discard(connection)
      ensure
        discard(connection) if restored.nil?
      end
    end
  end
end
