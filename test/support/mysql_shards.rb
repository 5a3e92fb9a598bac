# frozen_string_literal: true

require "socket"
require_relative "mysql"

module NeverBlockTest
  # For tests of shards on MariaDB: three databases, each with an empty table of orders, beside one that is dead and one
  # that is silent.
  #
  #   class SomethingTest < Minitest::Test
  #     include NeverBlockTest::MySQLShards
  #     def test_it = NeverBlock::Shards.map(pools(:eu, :us)) { |pool| pool.query("select 1") }
  #   end
  module MySQLShards
    include MySQL

    NAMES = %i[eu us asia].freeze

    def setup
      super
      require "neverblock/shards"
      @pools = []
      NAMES.each do |name|
        MySQL.server.query("create database if not exists nb_#{name}")
        on_shard(name, "create or replace table orders (id int primary key auto_increment, name varchar(100) unique)")
      end
    end

    def teardown
      @silent&.close
      @pools&.each(&:close)
      super
    end

    # @return [Hash{Symbol=>NeverBlock::MySQL}] of the named shards, or all
    def pools(*names)
      names = NAMES if names.empty?
      names.to_h { |name| [name, NeverBlock::MySQL.new(target(name), connections: 3).tap { |pool| @pools << pool }] }
    end

    # @return [Hash{Symbol=>Object}] of Trilogy.new
    def target(name)
      case name
      when :dead then MySQL.server.options(port: Peer.free_port, database: "nb_eu")
      when :silent then MySQL.server.options(port: silent_port, database: "nb_eu", connect_timeout: 60)
      else MySQL.server.options(database: "nb_#{name}")
      end
    end

    # @return [Integer] where connections are taken and nothing is said
    def silent_port = (@silent ||= TCPServer.new("127.0.0.1", 0)).addr[1]

    # Asks beside all clients.
    # @return [Array<String>] the first column
    def on_shard(name, sql) = MySQL.server.query(sql, database: "nb_#{name}").split("\n")

    # @return [Hash{Symbol=>Array<String>}] what is in the tables
    def orders = NAMES.to_h { |name| [name, on_shard(name, "select name from orders order by id")] }

    # @return [Integer] statements that run in a shard's database, without that which asks
    def running(name)
      ask("select count(*) from information_schema.processlist where db = 'nb_#{name}' and command = 'Query'").to_i
    end
  end
end
