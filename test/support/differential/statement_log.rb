# frozen_string_literal: true

require_relative "shape"

module NeverBlockTest
  class Differential
    # What `sql.active_record` tells while it is open: every statement with all of its payload, but for what must differ.
    #
    #   StatementLog.open { |log| Author.first; log.lines }     # => [{sql: "SELECT …", name: "Author Load", …}]
    class StatementLog
      # Keys that are left out of the comparison, and why.
      LEFT_OUT = {
        connection: "the adapter itself, of which each run has its own",
        transaction: "an object of its run; whether there is one is compared",
        exception_object: "its class and message are in :exception",
        queue_time: "the seconds that a statement waited for a real connection: only we tell them",
        lock_wait: "milliseconds that a caller waited for load_async",
        statement_name: "its number: a text that PostgreSQL refuses to prepare keeps its name with us, since we prepare and execute in one round trip, and " \
          "has none with Rails. Whether what went well was prepared is compared"
      }.freeze

      # Rails 7.2 does not log what it can't prepare, and tells its error's SQL only then; for us it is one with what can't be executed.
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

      # @param payload [Hash] when its statement is done
      def tell(payload)
        @payloads << {**payload.except(*LEFT_OUT.keys), in_transaction: !payload[:transaction].nil?, prepared: (!payload[:statement_name].nil? unless payload[:exception])} if !@closed && StatementLog.told?(payload)
      end

      # @return [Array<Hash>] so far, as plain data
      def lines = @payloads.map { |payload| Shape.of(payload) }

      # @return [void]
      def clear
        @closed = false
        @payloads.clear
      end

      # What comes now is not of the operation.
      # @return [void]
      def close = @closed = true
    end
  end
end
