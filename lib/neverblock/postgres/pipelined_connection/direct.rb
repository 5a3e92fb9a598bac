# frozen_string_literal: true

module NeverBlock
  class Postgres
    class PipelinedConnection
      # Runs a {Read} on the connection that is lent to it, or held by its lease. If anything is unusual the read
      # becomes a {Statement} in flight, and ends as any other.
      #
      #   name = connection.ready(read, now) and connection.ask(read, name, now)   # => PG::Result
      # @api private
      module Direct
        # @return [Float] when the last result of a shared read was read, on the monotonic clock
        attr_reader :read_at

        # @param read [Read]
        # @param time [Float] now, on the monotonic clock
        # @return [String, true, nil] its prepared statement's name; true: it needs none; nil: the queue must send it
        def ready(read, time)
          return if @inquiry || @relieving || (read.cluster && read.cluster != @cluster) || !alive?(time:)
          @wire.ready(read.key, read.since)
        end

        # @param read [Read]
        # @param name [String, true] see {#ready}
        # @param time [Float] now, on the monotonic clock
        # @return [PG::Result, nil] nil: it has become a statement, which {Multiplexer#run} completes
        # @raise [PG::Error, StandardError] it was not sent: a parameter could not be encoded
        def ask(read, name, time)
          @reader = @read = read
          @inside += 1 # as {Ending#inside_libpq}, without a block
          result = @wire.ask(read, name, time)
          answered = true
          @wire.heard(heard_since)
          @read_at = now unless @holder
          # A return here would throw, since there is an ensure.
          (read.statement.nil? && usual?(result)) ? result : deliver(read, result)
        rescue PG::Error => error
          raise if unsent?(read)
          answered = true
          failed(read, error)
        rescue SystemCallError, IOError => error
          raise if unsent?(read)
          answered = true
          lose(error)
        ensure
          leave(read) unless answered
          @reader = nil if @reader.equal?(read) # by now it may be another's
          @read = nil if @read.equal?(read)
          @inside -= 1
          close if @broken && @inside.zero?
        end

        # @param time [Float] now, on the monotonic clock
        # @return [Boolean] whether its session is certainly unchanged, so that no audit is needed
        def unchanged?(time)
          !stale && @suspect.nil? && @inquiry.nil? && @altering.nil? && time - audited_at < Janitor::INTERVAL &&
            @reported.calm?(time)
        end

        private

        # @return [Boolean] whether nothing follows from the result. What a lease leaves behind is reset at its end
        def usual?(result)
          return @altering.nil? && Guard.data?(result) if @holder
          unchanged?(@read_at) && Guard.read?(result)
        end

        # Makes a statement in flight of the read in flight.
        # @return [Statement]
        def become_statement
          statement = @read.become(self, @wire.head_since)
          @read = nil
          @sent << @direct = statement
          statement
        end

        # @return [nil]
        def deliver(read, result)
          statement = read.statement || become_statement
          @wire.answered(statement, result, heard_since, now)
          @reader = @direct = nil # before others get their places, one of which must read
          @owner.exchanged(self, statement)
          nil
        end

        # @return [nil]
        def failed(read, error)
          result = error.result
          return deliver(read, result) if result && @pg.status != PG::CONNECTION_BAD
          (read.statement || become_statement).took(result) if result
          lose(PG::ConnectionBad.new(@pg.error_message))
        end

        # @return [nil]
        def lose(error)
          break_off(error)
          nil
        end

        def unsent?(read) = @broken.nil? && @pg.status != PG::CONNECTION_BAD && @wire.progress(read) == :unsent

        # An exception has interrupted the read, from outside or out of an encoder.
        def leave(read)
          case @wire.progress(read)
          when :unsent then take_out(read.statement) if read.statement
          when :sent then become_statement unless read.statement
          when :torn then interrupted
          end
        end

        def take_out(statement)
          @sent.delete(statement)
          statement.sent_at = @direct = nil
        end
      end
    end
  end
end
