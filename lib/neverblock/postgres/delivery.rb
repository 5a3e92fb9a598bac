# frozen_string_literal: true

require "objspace"

module NeverBlock
  class Postgres
    # What becomes of answers that have come: each is told to the fiber that waits for it, unless the statement is to be sent again, was
    # cancelled for others, or has left something in its connection ({Guard}, {Audit}).
    #
    #   delivery.finished(connection, statements)   # their answers have come
    #   delivery.lost(connection, unsent)           # it is gone, and these were not sent
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
      # @param always [Boolean] whether what a connection keeps is asked after each statement
      # @param asks [Boolean] as {Guard}'s
      def initialize(pool, upkeep, relief, journal, timings:, tally:, definitions:, audit:, overtime: nil, always: false, asks: true)
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
      # @param statements [Array<Statement>] whose answers have come
      # @return [void]
      def finished(connection, statements)
        @pool.left if !connection.stale && connection.promoted?
        @definitions.altered(connection, lasting: statements.any?(&:defines?)) if connection.altering || statements.any?(&:alters?)
        shared = !connection.leased? && !connection.restoring?
        statements = @guard.cleared(connection, statements) if shared
        statements.each { |statement| connection.broken ? undelivered(connection, statement.awaited) : ended(connection, statement, shared) }
        @upkeep.settle(connection) if shared && !connection.broken
      end

      # The way of most: a shared read that had its connection by itself, and has left nothing in it.
      # @param connection [PipelinedConnection]
      # @param statement [Statement] whose answer has come
      # @return [void]
      def exchanged(connection, statement)
        return leased(connection, statement) if connection.leased? && statement.error.nil? && connection.altering.nil? && !statement.alters?
        return finished(connection, [statement]) unless statement.kind == :read && statement.error.nil? && connection.holder.nil? && connection.unchanged?(statement.read_at) && @guard.read?(statement)
        @tally.answered(nil)
        conclude(statement)
        @pool.take_back(connection) || @upkeep.settle(connection)
      end

      # @param connection [PipelinedConnection] that is gone
      # @param unsent [Array<Statement>] which move on
      # @return [void]
      def lost(connection, unsent)
        leased = connection.leased?
        idle = @pool.lost(connection)
        connection.inquiry&.held&.each { |statement| undelivered(connection, statement.awaited) }
        @definitions.altered if connection.altering || connection.ended_by_server # what was done is not known
        @pool.connections.each(&:doubt)
        idle.each(&:close)
        unsent.each do |statement|
          next statement.fail(PG::ConnectionBad.new(connection.broken.message.strip)) if leased || statement.abandoned?
          @tally.moved += 1
          statement.connection = nil
          statement.wake
        end
      end

      # @param statement [Statement] that is about to be sent
      # @return [void]
      def audit(statement)
        statement.audit_by(@audit.sql) if @always
      end

      private

      # What a lease has left is looked at when it is given back.
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

      # Its answer is told, unless that is that it was cancelled for others.
      def over(connection, statement)
        unless connection.relieving && statement.cancelled? && !statement.abandoned? && !@overtime&.end?(connection, statement)
          @tally.answered(connection.holder) unless statement.kind == :own
          return conclude(statement)
        end
        @relief.displace(statement)
        audit(statement)
        @upkeep.tend(connection) # no fiber may wait for what is left there
      end

      # It is over, and what the connection keeps is known; or is not, where the question was cancelled.
      def audited(connection, original, check)
        @tally.audits += 1
        if check.error
          return connection.push(original.audit_by(@audit.sql)) if connection.relieving && check.cancelled? # in the place of what ran before
          conclude(original)
          return @upkeep.discard(connection)
        end
        difference = @audit.difference(connection.baseline, @audit.read(check.value))
        over(connection, original)
        return unless difference
        @upkeep.discard(connection)
        @journal.leak(difference, original.sql)
      end

      # An audit before it has ended the connection: it may have met with what that found.
      def undelivered(connection, statement)
        statement.fail(OutcomeUnknown.of(connection.broken)) unless statement.done?
      end

      def conclude(statement)
        shape = statement.fingerprint
        @pool.learnt_fast(shape) if shape && statement.ended_at && @timings.record(shape, statement.running_time, statement.longest_time, size(statement))
        statement.finish
      end

      # What libpq has of its answer: about sixteen bytes more for each value than the value has.
      def size(statement) = statement.result ? ObjectSpace.memsize_of(statement.result) : 0

      # No result that may come from behind the change is delivered.
      def leaked(connection, statements, what)
        first, *later = statements.map(&:awaited).uniq.reject(&:done?)
        conclude(first) if first
        later.each { |statement| statement.fail(OutcomeUnknown.of(ClosedError.new("the connection was closed, since a statement before has changed its state: #{what}"))) }
        @upkeep.discard(connection)
        @journal.changed(what, statements)
      end
    end
  end
end
