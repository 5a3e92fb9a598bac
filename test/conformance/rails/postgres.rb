# frozen_string_literal: true

require_relative "../../support/postgres"

module Conformance
  module Rails
    # A PostgreSQL for Active Record's tests, and how they reach it.
    #
    #   Postgres.new.open { |postgres| postgres.empty }   # with new databases
    class Postgres
      NAMES = %w[activerecord_unittest activerecord_unittest2].freeze

      # @return [String, nil] why it can't run
      def missing = NeverBlockTest::PostgresServer.missing

      # @return [Array<String>] folders of test/cases/adapters
      def folders = %w[postgresql]

      # @return [Hash{String=>String}] adapters; "stock": Rails' own, without a loop
      def adapters = {"stock" => "postgresql", "neverblock" => "neverblock_postgresql"}

      # @yieldparam postgres [Postgres] a server of its own
      # @return [Object] the block's value
      def open
        NeverBlockTest::PostgresServer.open(max_connections: 100) do |server|
          yield self.class.new.tap { |opened| opened.server = server }
        end
      end

      # @param server [NeverBlockTest::PostgresServer]
      attr_writer :server

      # @return [String] for the report
      def title = "PostgreSQL #{@server.query("show server_version")[/\A\d+/]}"

      # @return [String] what the section of the report is called, after Active Record's release
      def suffix = ""

      # Makes the databases anew.
      # @return [void]
      def empty
        NAMES.each do |name|
          @server.query("DROP DATABASE IF EXISTS #{name} WITH (FORCE)")
          @server.query("CREATE DATABASE #{name}")
        end
      end

      # @return [Hash{Symbol=>Hash}] connections of Active Record's test configuration
      def connections
        database = {min_messages: "warning", host: @server.folder, port: @server.port, username: @server.user}
        {arunit: database, arunit2: database, arunit_without_prepared_statements: {**database, prepared_statements: false}}
      end

      # @return [Hash{String=>String}] variables for the programs that tests start
      def environment
        {"PATH" => "#{NeverBlockTest::PostgresServer::FOLDER}:#{ENV["PATH"]}", "PGHOST" => @server.folder, "PGPORT" => @server.port.to_s, "PGUSER" => @server.user}
      end
    end
  end
end
