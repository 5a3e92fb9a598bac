# frozen_string_literal: true

require_relative "database"

module NeverBlockTest
  # For tests of shards: three databases on the server of all tests, each with an empty table of orders, beside one that is
  # dead and one that is silent until the block of {#hush} has ended.
  #
  #   class SomethingTest < Minitest::Test
  #     include NeverBlockTest::ShardDatabases
  #     def test_it = NeverBlock::Shards.map(pools(:eu, :us)) { |pool| pool.exec("select 1") }
  #   end
  module ShardDatabases
    include Database

    NAMES = %i[eu us asia].freeze

    def setup
      super
      require "neverblock/shards"
      @pools = []
      ShardDatabases.create
      NAMES.each { |name| on_shard(name, "drop table if exists orders; create table orders (id serial primary key, name text unique)") }
    end

    # Once for all tests of the process: it takes a second.
    def self.create
      @created ||= NAMES.each { |name| Database.server.query("create database nb_#{name}") }
    end

    def teardown
      @silent&.close
      @pools&.each(&:close)
      NAMES.each { |name| on_shard(name, "drop table orders") } if @pools
      super
    end

    # @return [Hash{Symbol=>NeverBlock::Postgres}] of the named shards, or all
    def pools(*names, **options)
      names = NAMES if names.empty?
      names.to_h { |name| [name, pool(target(name), **options)] }
    end

    # @return [NeverBlock::Postgres] that is closed after the test
    def pool(target, connections: 3, **options)
      NeverBlock::Postgres.new(target, connections:, log: @logged.method(:<<), **options).tap { |pool| @pools << pool }
    end

    # @return [String] for libpq
    def target(name)
      case name
      when :dead then "postgresql://postgres@127.0.0.1:#{dead_port}/nb_eu"
      when :silent then "postgresql://postgres@127.0.0.1:#{silent_port}/nb_eu"
      else "#{Database.server.url("nb_#{name}")}&application_name=#{application}"
      end
    end

    def application = "nb_#{name[0, 50]}"

    # @return [Integer] where nothing listens
    def dead_port = @dead_port ||= TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }

    # @return [Integer] where connections are taken and nothing is said
    def silent_port = (@silent ||= TCPServer.new("127.0.0.1", 0)).addr[1]

    # A pool goes on connecting when its caller has given up, and its loop with it.
    # @return [Object] the block's value
    def hush
      yield
    ensure
      @silent.close
    end

    # Asks beside all clients.
    # @return [Array<String, nil>] the first column
    def on_shard(name, sql)
      connection = PG.connect(Database.server.url("nb_#{name}"))
      connection.set_notice_receiver { |_| } # that there was no table
      connection.exec(sql).then { |result| result.nfields.zero? ? [] : result.column_values(0) }
    ensure
      connection&.close
    end

    # @return [Hash{Symbol=>Array<String>}] what is in the tables
    def orders = NAMES.to_h { |name| [name, on_shard(name, "select name from orders order by id")] }

    # @return [Integer] statements of the test that run in a shard's database
    def running(name)
      on_shard(name, "select count(*) from pg_stat_activity where application_name = '#{application}' and state <> 'idle' and datname = current_database()").first.to_i
    end
  end
end
