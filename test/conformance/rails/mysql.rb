# frozen_string_literal: true

require_relative "../../support/mysql_server"

module Conformance
  module Rails
    # A MariaDB for Active Record's tests, and how they reach it.
    #
    #   Mysql.new("trilogy").open { |mysql| mysql.empty }   # with new databases
    class Mysql
      DRIVERS = %w[trilogy mysql2].freeze
      NAMES = %w[activerecord_unittest activerecord_unittest2].freeze
      # As in Rails' example of a configuration.
      SETTINGS = {encoding: "utf8mb4", collation: "utf8mb4_unicode_ci"}.freeze

      # @param driver [String] one of DRIVERS
      def initialize(driver)
        raise ArgumentError, "DATABASE=#{driver} is not known: write #{["postgresql", *DRIVERS].join(", ")}" unless DRIVERS.include?(driver)
        @driver = driver
      end

      # @return [String, nil] why it can't run
      def missing = NeverBlockTest::MySQLServer.missing

      # @return [Array<String>] folders of test/cases/adapters
      def folders = [@driver, "abstract_mysql_adapter"]

      # @return [Hash{String=>String}] adapters; "stock": Rails' own, without a loop
      def adapters = {"stock" => @driver, "neverblock" => "neverblock_#{@driver}"}

      # @yieldparam mysql [Mysql] a server of its own
      # @return [Object] the block's value
      def open
        NeverBlockTest::MySQLServer.open(max_connections: 150) do |server|
          yield self.class.new(@driver).tap { |opened| opened.server = server }
        end
      end

      # @param server [NeverBlockTest::MySQLServer]
      attr_writer :server

      # @return [String] for the report
      def title = "MariaDB #{@server.query("select version()")[/\A[\d.]+/]}"

      # @return [String] what the section of the report is called, after Active Record's release
      def suffix = ", #{@driver}"

      # Makes the databases anew.
      # @return [void]
      def empty
        @server.query("SET FOREIGN_KEY_CHECKS = 0; #{NAMES.map { |name| "DROP DATABASE IF EXISTS #{name};" }.join}")
        NAMES.each { |name| @server.query("CREATE DATABASE #{name} CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci") }
      end

      # @return [Hash{Symbol=>Hash}] connections of Active Record's test configuration
      def connections
        database = {host: "127.0.0.1", port: @server.port, username: NeverBlockTest::MySQLServer::USER, **SETTINGS}
        {arunit: database, arunit2: database}
      end

      # @return [Hash{String=>String}] variables for the programs that tests start
      def environment = {}
    end
  end
end
