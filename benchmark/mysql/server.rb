# frozen_string_literal: true

# The MariaDB that is measured against, at several distances, for as long as the block runs: a private one, with a delay
# proxy for each round trip that is not nothing.
#
#   Bench::Mysql::Server.open([0, 0.001]) do |server|
#     server.place(0.001, adapter: "trilogy")      # => {adapter: "trilogy", host: "127.0.0.1", port: 40001, ...}
#     server.watch { measure }                     # => {**what the block returned, "backends" => 12}
#   end
require_relative "../bench/clock"
require_relative "../bench/failure"
require_relative "../../test/support/delay_proxy"
require_relative "../../test/support/mysql_server"

module Bench
  class Mysql
    class Server
      TITLE = "MariaDB"
      ITEMS = 10_000
      PATIENCE = 10 # seconds until the connections of a process that has ended are gone
      SETTINGS = {max_connections: 250, innodb_buffer_pool_size: "256M"}.freeze
      SCHEMA = <<~SQL
        create table items (id integer primary key auto_increment, name varchar(255) not null, balance integer not null default 0);
        insert into items (name) select concat('Item ', seq) from seq_1_to_#{ITEMS};
        analyze table items;
      SQL

      # @return [String, nil] the reason why it can't run
      def self.missing
        require "trilogy"
        NeverBlockTest::MySQLServer.missing || NeverBlockTest::DelayProxy.missing
      rescue LoadError
        "the gem trilogy is not installed: .neverblock/log/bench-bundle.log says why"
      end

      # @param round_trips [Array<Float>] seconds
      # @yieldparam server [Server]
      # @return [Object] the block's value
      def self.open(round_trips)
        NeverBlockTest::MySQLServer.open(**SETTINGS) do |mysql|
          server = new(mysql, round_trips)
          yield server
        ensure
          server&.close
        end
      end

      def initialize(mysql, round_trips)
        @mysql = mysql
        mysql.query(SCHEMA)
        @connection = Trilogy.new(mysql.options)
        @proxies = round_trips.reject(&:zero?).to_h { |delay| [delay, NeverBlockTest::DelayProxy.new(to: mysql.socket, delay:)] }
      end

      # @return [String] of MariaDB
      def version = value("select version()")[/\A[\d.]+/]

      # @param round_trip [Float] seconds
      # @param adapter [String] of Active Record
      # @return [Hash{Symbol=>Object}] for Measured::ActiveRecordLayer
      def place(round_trip, adapter:)
        proxy = @proxies[round_trip]
        {adapter:, dbname: NeverBlockTest::MySQLServer::DATABASE, user: NeverBlockTest::MySQLServer::USER,
         **(proxy ? {host: "127.0.0.1", port: proxy.port} : {socket: @mysql.socket})}
      end

      # @yieldreturn [Hash{String=>Object}] figures of a process that was connected
      # @return [Hash{String=>Object}] those figures, and the maximum of its connections
      # @raise [Failure] where connections of the process before stay
      def watch
        wait_until_alone
        @connection.query("flush status") # from now on, and with this connection
        figures = yield
        {**figures, "backends" => status("max_used_connections") - 1}
      end

      # @return [void]
      def close
        @proxies&.each_value(&:close)
        @connection&.close
      end

      private

      def wait_until_alone
        deadline = Clock.now + PATIENCE
        until status("threads_connected") == 1
          raise Failure, "connections of the process before were still open after #{PATIENCE} s" if Clock.now > deadline
          sleep 0.01
        end
      end

      def status(name) = Integer(value("select variable_value from information_schema.global_status where variable_name = '#{name}'"))

      def value(sql) = @connection.query(sql).first.first
    end
  end
end
