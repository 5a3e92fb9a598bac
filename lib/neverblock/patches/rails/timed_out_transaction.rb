# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Timeouts leave their block by a throw, and a throw that leaves a transaction commits it, by Rails' own rule. Half of
      # a transaction that was timed out would be in the database. For transactions a timeout is an exception, as on other
      # servers, and they are rolled back. What the app throws itself commits as ever.
      module TimedOutTransaction
        # Prepended to ActiveRecord::ConnectionAdapters::TransactionManager.
        module Manager
          def within_new_transaction(...)
            super do |transaction|
              value = yield transaction
              ended = true
              value
            rescue Exception # standard:disable Lint/RescueException
              ended = true
              raise
            ensure
              Scheduler.current&.raise_escape unless ended
            end
          end
        end

        def self.cause = "transactions that are timed out are rolled back"

        def self.needed? = defined?(ActiveRecord)

        def self.apply = ActiveRecord::ConnectionAdapters::TransactionManager.prepend(Manager)
      end
    end
  end
end
