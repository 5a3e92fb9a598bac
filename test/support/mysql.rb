# frozen_string_literal: true

require_relative "delay_proxy"
require_relative "mysql_server"
require_relative "loops"

module NeverBlockTest
  # For tests of NeverBlock::MySQL: one MariaDB for all of a process's, and a client of it for each test.
  #
  #   class SomethingTest < Minitest::Test
  #     include NeverBlockTest::MySQL
  #     def test_it = with_mysql(connections: 2) { |database| in_loop { database.query("select 1") } }
  #   end
  module MySQL
    include Loops

    # @return [MySQLServer] that all tests of the process share
    def self.server
      @server ||= MySQLServer.start(max_connections: 200).tap { |server| Minitest.after_run { server.stop } }
    end

    # @return [String, nil] why its tests can't run
    def self.missing
      MySQLServer.missing || ("trilogy is not among the gems here" unless Gem.loaded_specs.key?("trilogy"))
    end

    def setup
      reason = MySQL.missing
      skip reason if reason
      require "neverblock/mysql"
      MySQL.server # before any fibers could start one each
    end

    # @yieldparam database [NeverBlock::MySQL] that is closed afterwards
    # @return [Object] the block's value
    def with_mysql(connections: 4, server: MySQL.server, target: server.options, **options)
      database = NeverBlock::MySQL.new(by_driver(target), connections:, **options)
      yield database
    ensure
      database&.close
    end

    # The same through a proxy, by which the network can be slow or silent. Skips the test where there is none.
    # @param options [Hash] of the driver
    # @yieldparam database [NeverBlock::MySQL]
    # @yieldparam proxy [DelayProxy]
    # @return [Object] the block's value
    def with_proxy(connections:, **options)
      reason = DelayProxy.missing and skip reason
      DelayProxy.open(to: MySQL.server.port) do |proxy|
        with_mysql(connections:, target: MySQL.server.options(port: proxy.port, **options)) { |database| yield database, proxy }
      end
    end

    # @param target [Hash] of Trilogy.new
    # @return [Hash, #call] for NeverBlock::MySQL.new
    def by_driver(target) = target

    # @return [Class] of errors of connecting
    def refusal = Trilogy::Error

    # @return [Integer, nil] the server's code of an error
    def code(error) = error.respond_to?(:error_code) ? error.error_code : error.error_number

    # Asks by the client program, beside all clients.
    # @return [String]
    def ask(sql) = MySQL.server.query(sql)

    # @return [Object] the first value of the first row
    def one(result) = result.rows.dig(0, 0)

    # A client and a table, for a block in a loop.
    # @yieldparam database [NeverBlock::MySQL]
    # @yieldparam table [String] with the columns id and n
    def with_table_in_loop(**) = with_table { |table| with_mysql(**) { |database| in_loop { yield database, table } } }

    # A table for one test, which is dropped with the block.
    # @yieldparam table [String]
    def with_table(columns = "id int primary key auto_increment, n int")
      table = "t_#{rand(1 << 40)}"
      ask("create table #{table} (#{columns})")
      yield table
    ensure
      ask("drop table if exists #{table}")
    end
  end

  # For a class of tests of trilogy: the same tests with the gem mysql2, whose errors trilogy's are, but for those of
  # connecting.
  module ByMysql2
    def setup
      super
      skip "mysql2 is not among the gems here" unless Gem.loaded_specs.key?("mysql2")
      require "neverblock/mysql/mysql2"
    end

    def by_driver(target)
      options = {connect_timeout: NeverBlock::MySQL::CONNECT_TIMEOUT, **target}
      -> { NeverBlock::MySQL::Mysql2Client.new(options) { |given| ::Mysql2::Client.new(given) } }
    end

    def refusal = ::Mysql2::Error
  end
end
