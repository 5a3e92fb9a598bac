# frozen_string_literal: true

require_relative "outcome_note"

module NeverBlock
  class Postgres
    # The connection went while a statement was under way: whether it was executed is unknown. Its message ends with a line
    # break, as those of libpq do in that case, which is what Active Record tells it by.
    class OutcomeUnknown < PG::ConnectionBad
      include Error

      # @api private
      # @param cause [Exception] what ended the connection
      # @return [OutcomeUnknown]
      def self.of(cause) = new("#{cause.message.strip} #{OutcomeNote::WORDS}\n")
    end

    # The statement ran for longer than `query_timeout`, and the server has given it up: it has not taken effect. It is the server's
    # error, with its `result`, in our words.
    class QueryTimeout < PG::QueryCanceled
      include Error

      # Characters of a statement that are told.
      MAX_SQL_SHOWN = 200

      # What is not undone as a whole.
      PARTLY = /\A[\s(]*(?:vacuum|analyze|cluster|reindex|call|do)\b|\bconcurrently\b/i
      private_constant :PARTLY

      # @api private
      # @param limit [Numeric] seconds
      # @param sql [String]
      # @param result [PG::Result, nil] the server's
      # @return [QueryTimeout]
      def self.of(limit, sql, result)
        effect = PARTLY.match?(sql.b) ? "what it had committed before that stays" : "it has not taken effect"
        new("#{words(limit, sql)}. The server has cancelled it: #{effect}. Make it faster, or raise the limit", result:)
      end

      # @api private
      # @return [String]
      def self.words(limit, sql) = "a statement ran for longer than query_timeout: #{limit} s: #{sql.to_s.scrub("?").gsub(/\s+/, " ")[0, MAX_SQL_SHOWN]}"
    end

    # The statement ran for longer than `query_timeout`, and the server has not said that it has given it up: it may be executed.
    # `retry: true` does not send it again.
    class UnconfirmedTimeout < OutcomeUnknown
      # @api private
      # @param limit [Numeric] seconds
      # @param sql [String]
      # @param grace [Numeric] seconds
      # @return [UnconfirmedTimeout]
      def self.after(limit, sql, grace) = new("#{QueryTimeout.words(limit, sql)}. The server was asked to cancel it, and has not answered within #{grace} s #{OutcomeNote::WORDS}\n")
    end

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
