# frozen_string_literal: true

# pg by itself: NeverBlock::Postgres, or a small fair pool of connections, each with its statements prepared. Every
# answer is checked.
#
#   layer = Measured::Raw.open({port: 6000, dbname: "bench"}, own: false, connections: 8)
#   layer.find(17)
#   layer.close
require "pg"
require "uri"
require_relative "check"

module Measured
  module Raw
    FIND = "select id, name, balance from items where id = $1"
    ADD = "update items set balance = balance + 1 where id = $1"
    ONE = "select 1"
    PATIENCE = 60 # seconds that a statement may wait: a thousand queue for eight connections

    # @param place [Hash{Symbol=>Object}] for PG.connect
    # @param own [Boolean] whether it is ours
    # @param connections [Integer]
    def self.open(place, own:, connections:, **)
      own ? Shared.new(place, connections) : Pool.new(place, connections)
    end

    # @return [NeverBlock::Postgres]
    def self.ours(place, **options)
      require "neverblock/postgres"
      ::NeverBlock::Postgres.new("postgresql:///?#{URI.encode_www_form(place)}", **options)
    end

    def self.check(result, wanted) = Check.same(result.getvalue(0, 0), wanted)

    # Statements of different fibers on the same connections.
    class Shared
      def initialize(place, connections)
        @postgres = Raw.ours(place, connections:, timeout: PATIENCE)
      end

      def select_1 = Raw.check(@postgres.exec(ONE, []), "1")

      def exec = Raw.check(@postgres.exec(ONE), "1")

      def find(id)
        text = id.to_s
        Raw.check(@postgres.exec(FIND, [text]), text)
      end

      def transaction(id)
        text = id.to_s
        @postgres.transaction do |connection|
          Raw.check(connection.exec(FIND, [text]), text)
          connection.exec(ADD, [text])
        end
      end

      def slow(sql) = @postgres.exec(sql)

      def close = @postgres.close
    end

    # A connection for each statement, and for each transaction. The longest waiter gets the next one: with a plain
    # queue, a fiber that returns one would take it again at once, and others would wait forever.
    class Pool
      def initialize(place, connections)
        @all = Array.new(connections) { connect(place) }
        @free = @all.dup
        @waiting = []
      end

      def select_1 = hold { |connection| Raw.check(connection.exec_prepared("one"), "1") }

      def exec = hold { |connection| Raw.check(connection.exec(ONE), "1") }

      def find(id) = hold { |connection| row(connection, id.to_s) }

      def transaction(id)
        text = id.to_s
        hold do |connection|
          connection.transaction do
            row(connection, text)
            connection.exec_prepared("add", [text])
          end
        end
      end

      def slow(sql) = hold { |connection| connection.exec(sql) }

      def close = @all.each(&:close)

      private

      def connect(place)
        PG.connect(**place).tap do |connection|
          {"one" => ONE, "find" => FIND, "add" => ADD}.each { |name, sql| connection.prepare(name, sql) }
        end
      end

      def hold
        connection = @free.pop || wait
        yield connection
      ensure
        (@waiting.shift || @free) << connection if connection
      end

      def wait
        @waiting << (turn = Thread::Queue.new)
        turn.pop
      end

      def row(connection, text) = Raw.check(connection.exec_prepared("find", [text]), text)
    end
  end
end
