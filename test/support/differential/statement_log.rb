# frozen_string_literal: true

require_relative "shape"

module NeverBlockTest
  class Differential
    # Records every statement that `sql.active_record` reports while it is open, with its payload, except for keys that
    # must differ.
    #
    #   StatementLog.open { |log| Author.first; log.lines }     # => [{sql: "SELECT …", name: "Author Load", …}]
    class StatementLog
      # Keys left out of the comparison, with the reason.
      LEFT_OUT = {
        connection: "the adapter itself, of which each run has its own",
        transaction: "an object of its run; whether there is one is compared",
        exception_object: "its class and message are in :exception",
        queue_time: "the seconds that a statement waited for a real connection: only we tell them",
        lock_wait: "milliseconds that a caller waited for load_async",
        statement_name: "its number: a text that PostgreSQL refuses to prepare keeps its name with us, since we prepare and execute in one round trip, and " \
          "has none with Rails. Whether what went well was prepared is compared"
      }.freeze

      # Rails 7.2 doesn't log a statement that it can't prepare, and adds the SQL to the error only then. We prepare and
      # execute in one step.
      def self.told?(payload) = !(EARLY && payload[:exception] && payload[:statement_name])

      # @yieldparam log [StatementLog]
      # @return [Object] the block's value
      def self.open
        log = new
        subscriber = ActiveSupport::Notifications.subscribe("sql.active_record") { |event| log.tell(event.payload) }
        yield log
      ensure
        ActiveSupport::Notifications.unsubscribe(subscriber)
      end

      def initialize
        @payloads = []
        @closed = false
      end

      # @param payload [Hash] of a finished statement
      def tell(payload)
        @payloads << {**payload.except(*LEFT_OUT.keys), in_transaction: !payload[:transaction].nil?, prepared: (!payload[:statement_name].nil? unless payload[:exception])} if !@closed && StatementLog.told?(payload)
      end

      # @return [Array<Hash>] the statements so far, as plain data
      def lines = @payloads.map { |payload| Shape.of(payload) }

      # @return [void]
      def clear
        @closed = false
        @payloads.clear
      end

      # Ignores later statements: they are not part of the operation.
      # @return [void]
      def close = @closed = true
    end
  end
end
