# frozen_string_literal: true

require "json"

module Conformance
  module Rails
    # One process that runs files of Active Record's tests, with new databases.
    #
    #   process = RunProcess.new(tree, files, postgres:, surroundings: "neverblock").call
    #   process.results   # => [#<struct Conformance::Result ...>, ...]
    class RunProcess < TestProcess
      CHILD = File.join(__dir__, "child.rb")
      DATABASES = %w[activerecord_unittest activerecord_unittest2].freeze

      # "stock": Rails' own adapter, without a loop.
      ADAPTERS = {"stock" => "postgresql", "neverblock" => "neverblock_postgresql"}.freeze

      # @return [Hash{String=>String}] files that could not be loaded, with the error
      attr_reader :unloadable

      # @param postgres [NeverBlockTest::PostgresServer]
      # @param surroundings [String] one of ADAPTERS
      def initialize(tree, files, postgres:, surroundings:, only: nil, except: [])
        super(tree, files.first, surroundings:, extensions: nil, only:, except:)
        @plan[:files] = files.map { |file| tree.join(file) }
        @postgres = postgres
        @adapter = ADAPTERS.fetch(surroundings)
        @unloadable = {}
      end

      # @return [self]
      def call
        DATABASES.each do |name|
          @postgres.query("DROP DATABASE IF EXISTS #{name} WITH (FORCE)")
          @postgres.query("CREATE DATABASE #{name}")
        end
        super
      end

      private

      def environment
        database = {min_messages: "warning", host: @postgres.folder, port: @postgres.port, username: @postgres.user}
        connection = {arunit: database, arunit2: database, arunit_without_prepared_statements: {**database, prepared_statements: false}}
        File.write(configuration_path, JSON.generate(connections: ADAPTERS.values.to_h { |name| [name, connection] }))
        gems = @tree.gems
        super.merge("RUBYLIB" => nil, "GEM_HOME" => gems, "GEM_PATH" => gems, "ARCONN" => @adapter, "ARCONFIG" => configuration_path,
          "PATH" => "#{NeverBlockTest::PostgresServer::FOLDER}:#{ENV["PATH"]}", "PGHOST" => @postgres.folder, "PGPORT" => @postgres.port.to_s, "PGUSER" => @postgres.user)
      end

      # JSON is YAML too.
      def configuration_path = File.join(@folder, "config.yml")

      def command = [RbConfig.ruby, *@tree.libraries.map { |folder| "-I#{folder}" }, CHILD]

      def take(event)
        super
        @unloadable[event.fetch("file")] = event.fetch("message") if event.fetch("event") == "unloadable"
      end
    end
  end
end
