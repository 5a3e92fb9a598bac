# frozen_string_literal: true

require "objspace"

module NeverBlock
  class Postgres
    # Hands results to the fibers that wait for them, unless the statement must be sent again, was cancelled for others,
    # or has left session state on a shared connection ({Guard}, {Audit}).
    #
    #   delivery.finished(connection, statements)   # their results have arrived
    #   delivery.lost(connection, unsent)           # the connection was lost; these were not sent
    #
    # @api private
    class Delivery
      # @param pool [Pool]
      # @param upkeep [Upkeep]
      # @param relief [Relief]
      # @param journal [Journal]
      # @param timings [Timings]
      # @param tally [Tally]
      # @param definitions [Definitions]
      # @param audit [Audit]
      # @param overtime [Overtime, nil]
      # @param always [Boolean] whether the session is audited after each statement
      # @param asks [Boolean] as {Guard#initialize} takes it
      def initialize(pool, upkeep, relief, journal, timings:, tally:, definitions:, audit:, overtime: nil,
        always: false, asks: true)
        @pool = pool
        @upkeep = upkeep
        @relief = relief
        @journal = journal
        @timings = timings
        @tally = tally
        @definitions = definitions
        @audit = audit
        @overtime = overtime
        @always = always
        @guard = Guard.new(asks:) { |connection, statements, what| leaked(connection, statements, what) }
      end

      # @param connection [PipelinedConnection]
      # @param statements [Array<Statement>] those whose results have arrived
      # @return [void]
      def finished(connection, statements)
        @pool.left if !connection.stale && connection.promoted?
        if connection.altering || statements.any?(&:alters?)
          @definitions.altered(connection, lasting: statements.any?(&:defines?))
        end
        shared = !connection.leased? && !connection.restoring?
        statements = @guard.cleared(connection, statements) if shared
        statements.each do |statement|
          connection.broken ? undelivered(connection, statement.awaited) : ended(connection, statement, shared)
        end
        @upkeep.settle(connection) if shared && !connection.broken
      end

      # The same for a statement that was alone on its connection.
      # @param connection [PipelinedConnection]
      # @param statement [Statement]
      # @return [void]
      def exchanged(connection, statement)
        if connection.leased? && statement.error.nil? && connection.altering.nil? && !statement.alters?
          return leased(connection, statement)
        end
        finished(connection, [statement])
      end

      # @param connection [PipelinedConnection] the one that was lost
      # @param unsent [Array<Statement>] those that look for another connection
      # @return [void]
      def lost(connection, unsent)
        leased = connection.leased?
        idle = @pool.lost(connection)
        connection.inquiry&.held&.each { |statement| undelivered(connection, statement.awaited) }
        # Whether a definition has changed is unknown.
        @definitions.altered if connection.altering || connection.ended_by_server
        @pool.connections.each(&:probe_next)
        idle.each(&:close)
        unsent.each do |statement|
          next statement.fail(PG::ConnectionBad.new(connection.broken.message.strip)) if leased || statement.abandoned?
          @tally.moved += 1
          statement.connection = nil
          statement.wake
        end
      end

      # Adds an audit to a statement, where each one is audited.
      # @param statement [Statement] one that is not sent yet
      # @return [void]
      def audit(statement)
        statement.audit_by(@audit.sql) if @always
      end

      private

      # A statement of a lease, whose session state is reset at the lease's end.
      def leased(connection, statement)
        @pool.left if !connection.stale && connection.promoted?
        @tally.answered(connection.holder) unless statement.kind == :own
        conclude(statement)
      end

      def ended(connection, statement, shared)
        if statement.error && shared && statement.resend?
          @tally.renamed += 1
          audit(statement)
          connection.push(statement)
        elsif (original = statement.audited)
          audited(connection, original, statement) if original.check.equal?(statement)
        elsif statement.check.nil? || statement.abandoned?
          over(connection, statement)
        end
      end

      # Delivers the result, unless the statement was cancelled for others.
      def over(connection, statement)
        unless connection.relieving && statement.cancelled? && !statement.abandoned? &&
            !@overtime&.end?(connection, statement) && statement.displaceable?
          @tally.answered(connection.holder) unless statement.kind == :own
          return conclude(statement)
        end
        @relief.displace(statement)
        audit(statement)
        @upkeep.tend(connection) # the statements left there may all be abandoned
      end

      # The audit of a statement has ended, or was cancelled.
      def audited(connection, original, check)
        @tally.audits += 1
        if check.error
          # The audit was cancelled by a request meant for the statement before.
          return connection.push(original.audit_by(@audit.sql)) if connection.relieving && check.cancelled?
          conclude(original)
          return @upkeep.discard(connection)
        end
        difference = @audit.difference(connection.baseline, @audit.read(check.value))
        over(connection, original)
        return unless difference
        @upkeep.discard(connection)
        @journal.leak(difference, original.sql)
      end

      # An audit closed the connection before this result was delivered: the statement may have seen that state.
      def undelivered(connection, statement)
        statement.fail(OutcomeUnknown.of(connection.broken)) unless statement.done?
      end

      def conclude(statement)
        learn(statement, statement.fingerprint) if statement.fingerprint && statement.ended_at
        statement.finish
      end

      # A connection's first run of a text tells little about a shape that is known to be fast: the server parses and
      # plans it, and reads the catalogue.
      def learn(statement, shape)
        return if statement.named_first && @timings.fast?(shape)
        learnt = @timings.record(shape, statement.running_time, statement.longest_time, size(statement))
        @pool.learnt_fast(shape) if learnt
      end

      # Bytes of the result in libpq: about sixteen more for each value than the value has.
      def size(statement) = statement.result ? ObjectSpace.memsize_of(statement.result) : 0

      # A shared statement has changed its session: no result of a later statement is delivered.
      def leaked(connection, statements, what)
        first, *later = statements.map(&:awaited).uniq.reject(&:done?)
        conclude(first) if first
        later.each do |statement|
          statement.fail(OutcomeUnknown.of(ClosedError.new(
            "the connection was closed, because an earlier statement changed its session state: #{what}"
          )))
        end
        @upkeep.discard(connection)
        @journal.changed(what, statements)
      end
    end
  end
end
