# frozen_string_literal: true

module NeverBlockTest
  class DatabaseClient
    # Acts in transactions, and locks of tables that others wait for.
    module Transactions
      private

      def read_locked(_nonce) = one(@database.exec("select n from soak_locked"))

      # Waits for its children's reads, while other fibers wait for its lock.
      def parent(nonce)
        @database.transaction do |connection|
          connection.exec("lock table soak_locked in access exclusive mode")
          NB.concurrently(1..2, limit: 2) { |n| own("#{nonce}-#{n}", one(@database.exec("select '#{nonce}-#{n}'::text as n"))) }
        end
        nil
      end

      def commit(nonce)
        @database.transaction do |connection|
          own(nonce, one(connection.exec(insert(nonce))))
          own(nonce, one(connection.exec_params("select nonce from soak where nonce = $1", [nonce])))
        end
        :applied
      end

      def roll_back(nonce)
        @database.connect do |connection|
          connection.exec("BEGIN")
          own(nonce, one(connection.exec(insert(nonce))))
          connection.exec("ROLLBACK")
        end
        nil
      end

      def raise_in_transaction(nonce)
        @database.transaction do |connection|
          own(nonce, one(connection.exec(insert(nonce))))
          raise Enough
        end
      end

      def error_in_transaction(nonce)
        @database.transaction do |connection|
          own(nonce, one(connection.exec(insert(nonce))))
          connection.exec("select 1 / (random() * 0)::int")
          @wrong << "#{nonce} was given no error"
        end
      end

      def savepoint(nonce)
        @database.transaction do |connection|
          connection.exec("savepoint a")
          connection.exec(insert(nonce))
          connection.exec("rollback to a")
          own(nonce, one(connection.exec(insert(nonce))))
          connection.exec("release a")
        end
        :applied
      end

      # Increments a number; it must grow by one for each act that reported success.
      def count(_nonce)
        @database.transaction { |connection| connection.exec("update soak_counts set n = n + 1 where id = $1", [@random.rand(1..4)]) }
        :applied
      end
    end
  end
end
