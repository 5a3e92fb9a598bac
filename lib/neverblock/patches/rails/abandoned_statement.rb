# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Cancels an interrupted statement in PostgreSQL. Otherwise the statement of a cancelled or timed-out
      # request goes on there, and the next user of the connection waits for its end. Rails itself does the same
      # when it rolls a transaction back.
      module AbandonedStatement
        # Prepended to ActiveRecord::ConnectionAdapters::PostgreSQLAdapter.
        module Connection
          private

          # An ensure covers each way out: return, raise and throw.
          def with_raw_connection(...)
            value = super
            ended = true
            value
          ensure
            unless ended || open_transactions.positive? || @raw_connection&.transaction_status != PG::PQTRANS_ACTIVE
              give_up_statement
            end
          end

          def give_up_statement
            cancel_any_running_query
          rescue => error
            Railtie.log("an interrupted statement could not be cancelled, so its connection is closed: " \
              "#{error.message}")
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
