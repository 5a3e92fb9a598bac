# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # A statement that nobody waits for any more, since its request was cancelled or timed out, goes on in PostgreSQL, and
      # whoever gets its connection next would wait for its end. PostgreSQL is asked to give it up, as Rails does itself where
      # a transaction is rolled back.
      module AbandonedStatement
        # Prepended to ActiveRecord::ConnectionAdapters::PostgreSQLAdapter.
        module Connection
          private

          # By `ensure`, for whatever way it is left.
          def with_raw_connection(...)
            value = super
            ended = true
            value
          ensure
            give_up_statement unless ended || open_transactions.positive? || @raw_connection&.transaction_status != PG::PQTRANS_ACTIVE
          end

          def give_up_statement
            cancel_any_running_query
          rescue => error
            Railtie.log("a statement that was interrupted could not be given up, so its connection is closed: #{error.message}")
            disconnect!
          end
        end

        def self.needed? = defined?(ActiveRecord)

        def self.apply
          ActiveSupport.on_load(:active_record_postgresqladapter) { prepend(Connection) }
        end
      end
    end
  end
end
