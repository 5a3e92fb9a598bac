# frozen_string_literal: true

require_relative "excerpt"
require_relative "outcome_note"

module NeverBlock
  class Postgres
    # The connection was lost while a statement was in flight: it is unknown whether the statement was executed. The
    # message ends with a line break, as libpq's do in that case; Active Record recognizes it by that.
    class OutcomeUnknown < PG::ConnectionBad
      include Error

      # @api private
      # @param cause [Exception] the error that ended the connection
      # @return [OutcomeUnknown]
      def self.of(cause) = new("#{cause.message.strip} #{OutcomeNote::WORDS}\n")
    end

    # The statement ran longer than `query_timeout`, and the server has cancelled it: it has not taken effect in its
    # database; what its functions did outside of their transaction, as by dblink, stays. It has the `result` of the
    # server's error, and our message, which says which it is.
    class QueryTimeout < PG::QueryCanceled
      include Error

      # @api private
      # @param limit [Numeric] seconds
      # @param sql [String]
      # @param result [PG::Result, nil] the server's
      # @param harmless [Boolean] as {Statement#harmless?}
      # @return [QueryTimeout]
      def self.of(limit, sql, result, harmless:)
        new("#{words(limit, sql)}. The server has cancelled it: #{effect(sql, harmless)}. Make it faster, or raise " \
          "the limit", result:)
      end

      def self.effect(sql, harmless)
        return "the changes that it had committed before stay" if Statement.partly?(sql)
        return "it has not taken effect" if harmless
        "what it has changed is undone; only what functions did outside of its transaction, as by dblink, would stay"
      end
      private_class_method :effect

      # @api private
      # @return [String]
      def self.words(limit, sql)
        "a statement ran for longer than query_timeout: #{limit} s: #{Excerpt.of(sql)}"
      end
    end

    # The statement ran longer than `query_timeout`, and the server has not confirmed its cancel: it may still be
    # executed. `retry: true` does not send it again.
    class UnconfirmedTimeout < OutcomeUnknown
      # @api private
      # @param limit [Numeric] seconds
      # @param sql [String]
      # @param grace [Numeric] seconds
      # @return [UnconfirmedTimeout]
      def self.after(limit, sql, grace)
        new("#{QueryTimeout.words(limit, sql)}. The server was asked to cancel it, and has not answered within " \
          "#{grace} s #{OutcomeNote::WORDS}\n")
      end
    end

    # The server is a different cluster; cached OIDs and schema are invalid. Reconnect. The statement was not sent:
    # Active Record recognizes that by a message without a line break at its end.
    class OtherCluster < PG::ConnectionBad
      include Error

      def initialize(message = "the server is a different cluster than this connection's; cached OIDs and schema are " \
        "invalid: reset the connection")
        super
      end
    end

    # No connection was free in time. The message names the holders.
    class PoolTimeout < StandardError
      include Error
    end

    # `max_waiting` requests wait for a connection already.
    class BacklogFull < PoolTimeout
    end
  end
end
