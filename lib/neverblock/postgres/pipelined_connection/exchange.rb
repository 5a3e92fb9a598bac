# frozen_string_literal: true

module NeverBlock
  class Postgres
    class PipelinedConnection
      # Runs a statement that is alone on the connection that it holds as pg does, at less cost than by a pipeline.
      #
      #   connection.push(statement)
      #   connection.complete(statement)
      # @api private
      module Exchange
        private

        # @return [String, true, nil] nil: the pipeline must send it
        def direct_name(statement)
          if !@sent.empty? || @inquiry || @relieving || (statement.cluster && statement.cluster != @cluster) || !alive?
            return
          end
          @wire.single(statement) if @outbox.size == 1 # others may have been added while the socket was probed
        end

        def exchange(statement, name)
          @reader = @direct = statement
          @inside += 1 # as {Ending#inside_libpq}, without a block
          @outbox.clear
          if statement.doubt
            suspect_of(statement)
            names.distrust(now)
          end
          @wire.exchange(statement, name)
          @wire.exchanged(statement, heard_since)
          @reader = @direct = nil # before others get their places, one of which must read
          @owner.exchanged(self, statement)
          whole = true
        rescue PG::Error, SystemCallError, IOError => error
          break_off(error)
          whole = true
        ensure
          @reader = nil if @reader.equal?(statement) # by now it may be another's
          @inside -= 1
          torn(statement) unless whole
          close if @broken && @inside.zero?
        end

        # An exception from outside has interrupted the exchange.
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
