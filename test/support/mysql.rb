# frozen_string_literal: true

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
      @server ||= MySQLServer.start(max_connections: 60).tap { |server| Minitest.after_run { server.stop } }
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
      database = NeverBlock::MySQL.new(target, connections:, **options)
      yield database
    ensure
      database&.close
    end

    # Asks by the client program, beside all clients.
    # @return [String]
    def ask(sql) = MySQL.server.query(sql)

    # @return [Object] the first value of the first row
    def one(result) = result.rows.dig(0, 0)

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
end
