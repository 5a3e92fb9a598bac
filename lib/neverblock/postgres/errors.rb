# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The connection went while a statement was under way: whether it was executed is unknown. Its message ends with a line
    # break, as those of libpq do in that case, which is what Active Record tells it by.
    class OutcomeUnknown < PG::ConnectionBad
      include Error

      # @api private
      # @param cause [Exception] what ended the connection
      # @return [OutcomeUnknown]
      def self.of(cause) = new("#{cause.message.strip} #{Doubt::WORDS}\n")
    end

    # What ends the wait for a write that has been sent - a timeout, a cancellation - says so too.
    # @api private
    module Doubt
      WORDS = "(the statement had been sent: whether it was executed is unknown)"

      # @param error [Exception, nil]
      # @return [void]
      def self.tell(error)
        case error
        when nil, Doubt then nil
        when Scheduler::ScopeExit then error.note = WORDS # it becomes another one outside of the timeout's block
        else error.extend(Doubt) unless error.frozen?
        end
      end

      # @return [String]
      def to_s = "#{super} #{WORDS}"
    end
    private_constant :Doubt

    # Another cluster of databases answers, where whoever asks knows neither the types' numbers nor the tables: he is to connect anew.
    # Nothing was sent, which is what Active Record takes a message without a line break at its end for.
    class OtherCluster < PG::ConnectionBad
      include Error

      def initialize(message = "another cluster of databases answers than the one that this connection was to: reset it")
        super
      end
    end

    # No connection was free in time; the message says who holds them.
    class PoolTimeout < StandardError
      include Error
    end

    # As many wait for a connection as may.
    class BacklogFull < PoolTimeout
    end
  end
end
