# frozen_string_literal: true

module NeverBlock
  class Postgres
    class PipelinedConnection
      # A statement that has its connection by itself - it was lent to it, it runs alone, it is of a transaction - is exchanged for its answer
      # as pg does it, at less cost than a pipeline's.
      #
      #   connection.exchange_lent(statement)   # => true: it has its answer; false: it goes by the pipeline
      # @api private
      module Exchange
        # @param statement [Statement] to which it was lent, being idle
        # @return [Boolean] whether that was tried; else it is to go by the pipeline
        def exchange_lent(statement)
          @outbox << statement
          statement.connection = self
          name = direct_name(statement) or return false
          exchange(statement, name)
          true
        end

        # @param time [Float] now
        # @return [Boolean] whether it is certainly as it was, and need not be looked at
        def unchanged?(time) = !stale && @suspect.nil? && @inquiry.nil? && @altering.nil? && time - audited_at < Janitor::INTERVAL && @reported.calm?

        private

        # @return [String, true, nil] nil: it goes by the pipeline
        def direct_name(statement)
          return if !@sent.empty? || @inquiry || @relieving || (statement.cluster && statement.cluster != @cluster) || !alive?
          @wire.single(statement) if @outbox.size == 1 # a look at it may have waited
        end

        def exchange(statement, name)
          @reader = @direct = statement
          @outbox.clear
          if statement.doubt
            suspect_of(statement)
            names.doubt(now)
          end
          @wire.exchange(statement, name)
          @wire.exchanged(statement, heard_since)
          @reader = @direct = nil # others get their places now, and one of them is to read
          @owner.exchanged(self, statement)
          whole = true
        rescue PG::Error, SystemCallError, IOError => error
          break_off(error)
          whole = true
        ensure
          @reader = nil
          torn(statement) unless whole
        end

        # By an exception from outside.
        def torn(statement)
          case @wire.interrupted(statement)
          when :unsent then statement.sent_at = @direct = nil
          when :torn
            interrupted
            statement.fail(OutcomeUnknown.of(@broken)) unless statement.done?
          end
        end
      end
    end
  end
end
