# frozen_string_literal: true

require "timeout"

module NeverBlock
  class Postgres
    # What becomes of a connection between its users: it goes to the next, is looked at or restored first ({Restoration}), or is closed.
    #
    #   upkeep = Upkeep.new(pool, journal, audit:, definitions:)
    #   upkeep.settle(backend)                                  # something has ended on it
    #   upkeep.give_back(backend, clean: false, discard: true)  # a lease is over, which has left something
    #   upkeep.tend(backend)                                    # no fiber may wait for what is left on it
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

      # @param backend [Backend] on which something has ended
      # @return [void]
      def settle(backend)
        if backend.idle? && backend.broken.nil?
          return backend.put_off = true if backend.asking
          return discard(backend) if backend.stale || backend.transaction_status != PG::PQTRANS_IDLE
          return Background.run { restore(backend, audit: true) } if (backend.suspect || overdue?(backend)) && @pool.hold(backend) { backend.idle? && !backend.restoring? }
        end
        @pool.reserve(backend) { true } if backend.stale # so that it gets idle
        @pool.settle(backend)
      end

      # @param backend [Backend] whose lease is over
      # @param clean [Boolean] whether it is as it was
      # @param discard [Boolean] whether it may keep something
      # @param settings [Array<String>, nil] that are all it may keep
      # @return [void]
      def give_back(backend, clean:, discard:, settings: nil)
        return discard(backend) if backend.stale || (@pooled && discard && !clean)
        return settle(backend) if clean && !@always
        Background.run { restore(backend, discard, audit: @always, settings:) }
      end

      # @param backend [Backend] that is not to be used again
      # @return [void]
      def discard(backend) = backend.break_off(ClosedError.new("this connection was closed: it could not be trusted any more"), trusted: false)

      # What runs on it is given up first, by a task of its own; until it has ended it counts as a connection.
      # @param backend [Backend] whose lease is over, and which is not to be used again
      # @param busy [Boolean] whether another fiber is in the midst of something on it
      # @return [void]
      def retire(backend, busy:)
        @definitions.altered # by what user's code has done on it, perhaps
        return discard(backend) unless backend.runs?
        @pool.hold(backend) { true }
        Background.run do
          busy ? Timeout.timeout(Restoration::LIMIT) { backend.pg.cancel } : Restoration.new(backend).give_up
        rescue Timeout::Error, ThreadError, PG::Error
          nil # it does not answer, or is gone, or Ruby ends and makes no threads
        ensure
          discard(backend)
        end
      end

      # The last fiber that waited on it may be gone, and what others have left behind on it is read by none.
      # @param backend [Backend, nil]
      # @return [void]
      def tend(backend)
        return if backend.nil? || backend.idle? || !backend.deserted?
        free = @pool.hold(backend) { !backend.idle? && backend.deserted? && !backend.leased? && !backend.restoring? }
        Background.run { backend.inquiry ? discard(backend) : restore(backend) } if free # what it reports is in doubt
      end

      # Connections that are idle, and were used since they were looked at, are looked at, one after the other: from {Patrol}'s thread.
      # @return [void]
      def look_around
        @pool.backends.dup.each do |backend|
          next unless @pool.hold(backend) { @pool.router.unseen?(backend) }
          backend.age.heard(backend.heard)
          restore(backend, audit: true)
          backend.age.asked(backend.audited_at) # which is no use of it
        end
      rescue PG::Error, ClosedError => error
        @journal.say("what a connection keeps could not be looked at: #{error.message}")
      end

      private

      # Under load no connection may ever be idle when {Patrol} comes.
      def overdue?(backend) = Scheduler.current && Process.clock_gettime(Process::CLOCK_MONOTONIC) - backend.audited_at > Patrol::EVERY

      # Ends what still runs on it, and makes it as it was when it was new.
      def restore(backend, discard = false, audit: false, settings: nil)
        @pool.hold(backend) { true }
        suspect = backend.suspect
        @tally.audits += 1 if audit || suspect
        @tally.restored += 1 if discard || suspect
        restored = Restoration.new(backend, discard, (@audit if audit || suspect), @catalogue, settings:) { |what| @journal.leak(what, suspect) }.run
        restored ? settle(backend) : discard(backend)
      ensure
        discard(backend) if restored.nil?
      end
    end
  end
end
