# frozen_string_literal: true

require "objspace"

module NeverBlock
  class Postgres
    # What becomes of answers that have come: each is told to the fiber that waits for it, unless the statement is to be sent again, was
    # cancelled for others, or has left something in its connection ({Guard}, {Audit}).
    #
    #   delivery.finished(backend, statements)   # their answers have come
    #   delivery.lost(backend, unsent)           # it is gone, and these were not sent
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
        @guard = Guard.new(asks:) { |backend, statements, what| leaked(backend, statements, what) }
      end

      # @param backend [Backend]
      # @param statements [Array<Statement>] whose answers have come
      # @return [void]
      def finished(backend, statements)
        @pool.left if !backend.stale && backend.promoted?
        @definitions.altered(backend, lasting: statements.any?(&:defines?)) if backend.altering || statements.any?(&:alters?)
        shared = !backend.leased? && !backend.restoring?
        statements = @guard.cleared(backend, statements) if shared
        statements.each { |statement| backend.broken ? undelivered(backend, statement.awaited) : ended(backend, statement, shared) }
        @upkeep.settle(backend) if shared && !backend.broken
      end

      # The way of most: a shared read that had its connection by itself, and has left nothing in it.
      # @param backend [Backend]
      # @param statement [Statement] whose answer has come
      # @return [void]
      def exchanged(backend, statement)
        return leased(backend, statement) if backend.leased? && statement.error.nil? && backend.altering.nil? && !statement.alters?
        return finished(backend, [statement]) unless statement.kind == :read && statement.error.nil? && backend.holder.nil? && backend.unchanged?(statement.read_at) && @guard.read?(statement)
        @tally.answered(nil)
        conclude(statement)
        @pool.take_back(backend) || @upkeep.settle(backend)
      end

      # @param backend [Backend] that is gone
      # @param unsent [Array<Statement>] which move on
      # @return [void]
      def lost(backend, unsent)
        leased = backend.leased?
        idle = @pool.lost(backend)
        backend.inquiry&.held&.each { |statement| undelivered(backend, statement.awaited) }
        @definitions.altered if backend.altering || backend.ended_by_server # what was done is not known
        @pool.backends.each(&:doubt)
        idle.each(&:close)
        unsent.each do |statement|
          next statement.fail(PG::ConnectionBad.new(backend.broken.message.strip)) if leased || statement.abandoned?
          @tally.moved += 1
          statement.backend = nil
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
      def leased(backend, statement)
        @pool.left if !backend.stale && backend.promoted?
        @tally.answered(backend.holder) unless statement.kind == :own
        conclude(statement)
      end

      def ended(backend, statement, shared)
        if statement.error && shared && statement.resend?
          @tally.renamed += 1
          audit(statement)
          backend.push(statement)
        elsif (original = statement.audited)
          audited(backend, original, statement) if original.check.equal?(statement)
        elsif statement.check.nil? || statement.abandoned?
          over(backend, statement)
        end
      end

      # Its answer is told, unless that is that it was cancelled for others.
      def over(backend, statement)
        unless backend.relieving && statement.cancelled? && !statement.abandoned? && !@overtime&.end?(backend, statement)
          @tally.answered(backend.holder) unless statement.kind == :own
          return conclude(statement)
        end
        @relief.displace(statement)
        audit(statement)
        @upkeep.tend(backend) # no fiber may wait for what is left there
      end

      # It is over, and what the connection keeps is known; or is not, where the question was cancelled.
      def audited(backend, original, check)
        @tally.audits += 1
        if check.error
          return backend.push(original.audit_by(@audit.sql)) if backend.relieving && check.cancelled? # in the place of what ran before
          conclude(original)
          return @upkeep.discard(backend)
        end
        difference = @audit.difference(backend.kept, @audit.read(check.value))
        over(backend, original)
        return unless difference
        @upkeep.discard(backend)
        @journal.leak(difference, original.sql)
      end

      # An audit before it has ended the connection: it may have met with what that found.
      def undelivered(backend, statement)
        statement.fail(OutcomeUnknown.of(backend.broken)) unless statement.done?
      end

      def conclude(statement)
        shape = statement.fingerprint
        @pool.learnt_fast(shape) if shape && statement.ended_at && @timings.record(shape, statement.running_time, statement.longest_time, size(statement))
        statement.finish
      end

      # What libpq has of its answer: about sixteen bytes more for each value than the value has.
      def size(statement) = statement.result ? ObjectSpace.memsize_of(statement.result) : 0

      # No result that may come from behind the change is delivered.
      def leaked(backend, statements, what)
        first, *later = statements.map(&:awaited).uniq.reject(&:done?)
        conclude(first) if first
        later.each { |statement| statement.fail(OutcomeUnknown.of(ClosedError.new("the connection was closed, since a statement before has changed its state: #{what}"))) }
        @upkeep.discard(backend)
        @journal.changed(what, statements)
      end
    end
  end
end
