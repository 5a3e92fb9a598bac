# frozen_string_literal: true

module NeverBlockFuzz
  # How a fiber reaches the database: the same methods for both APIs and both sides.
  #
  #   Links::Plain.new(NeverBlock::Postgres.new(url)).rows("select $1", [1])      # => [["1"]]
  module Links
    # Active Record, of either adapter.
    class Records
      def rows(sql, binds) = connection.exec_query(sql, "Word", binds).rows

      def run(sql) = connection.execute(sql)

      def transaction(&) = ActiveRecord::Base.transaction(&)

      def roll_back = raise(ActiveRecord::Rollback)

      def session = yield(connection.raw_connection)

      def model(fiber) = MODELS[fiber]

      # The models of all fibers' tables.
      MODELS = Hash.new do |hash, fiber|
        hash[fiber] = Class.new(ActiveRecord::Base) do
          self.table_name = "own#{fiber}"
          define_singleton_method(:name) { "Own#{fiber}" }
        end
      end
      private_constant :MODELS

      private

      def connection = ActiveRecord::Base.lease_connection
    end

    # An object with exec, connect and transaction.
    class Plain
      # Ends a transaction.
      class Undo < RuntimeError; end
      private_constant :Undo

      # @param database [NeverBlock::Postgres, Stock]
      def initialize(database)
        @database = database
        @inside = nil
      end

      def rows(sql, binds)
        return (@inside || @database).exec(sql).values if binds.empty?
        (@inside ? @inside.exec_params(sql, binds) : @database.exec(sql, binds)).values
      end

      def run(sql) = (@inside || @database).exec(sql)

      def transaction(&) = inside(:transaction, &)

      def session(&) = @inside ? yield(@inside) : inside(:connect, &)

      def roll_back = raise(Undo)

      private

      def inside(kind)
        @database.public_send(kind) do |connection|
          @inside = connection
          yield connection
        ensure
          @inside = nil
        end
      rescue Undo
        nil
      end
    end

    # pg, with the methods of NeverBlock::Postgres: a connection that is cleaned after each use.
    class Stock
      # @param url [String]
      def initialize(url)
        @connection = PG.connect(url)
      end

      def exec(sql, params = nil)
        params ? @connection.exec_params(sql, params) : @connection.exec(sql)
      ensure
        clean
      end

      def connect
        yield @connection
      ensure
        clean
      end

      def transaction(&)
        @connection.transaction(&)
      ensure
        clean
      end

      private

      def clean
        @connection.exec("rollback") unless @connection.transaction_status == PG::PQTRANS_IDLE
        @connection.exec("discard all")
      end
    end
  end
end
