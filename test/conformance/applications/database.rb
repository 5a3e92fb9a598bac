# frozen_string_literal: true

require "fileutils"
require "socket"
require_relative "../../support/postgres"
require_relative "../../support/redis"

module Conformance
  module Applications
    # What an application keeps: its database, and a Redis. Each run begins with what was there when it was seeded.
    #
    #   database = Database.for({"database" => "postgresql"}, folder)
    #   database.start
    #   database.create
    #   database.keep       # what the application has prepared
    #   database.reset      # as it was kept
    #   database.stop
    class Database
      # @param description [Hash] of the application: `database`, sqlite or postgresql; `folder`, where it has SQLite's files
      # @param copy [String] the application's folder
      # @return [Database]
      def self.for(description, copy)
        (description.fetch("database") == "sqlite") ? Sqlite.new(File.join(copy, description.fetch("folder"))) : Postgres.new
      end

      # @return [void]
      def start
        missing = NeverBlockTest::RedisServer.missing and raise missing
        @redis = NeverBlockTest::RedisServer.start
      end

      # @return [void]
      def stop = @redis.stop

      # @param _adapter [String, nil] the scheme of the database's address, if it is not Rails' own
      # @return [Hash{String=>String}]
      def environment(_adapter = nil) = {"REDIS_URL" => "unix://#{@redis.path}"}

      # @return [void]
      def reset = UNIXSocket.open(@redis.path) { |redis| redis.write("FLUSHALL\r\n") && redis.gets }

      # Files in a folder.
      class Sqlite < Database
        def initialize(folder)
          super()
          @folder = folder
          @kept = "#{folder}-kept"
        end

        # @return [String]
        def title = "SQLite"

        # A checkout that somebody has used may have one.
        def create
          FileUtils.rm_rf(@folder)
          FileUtils.mkdir_p(@folder)
        end

        def keep
          FileUtils.rm_rf(@kept)
          FileUtils.cp_r(@folder, @kept)
        end

        def reset
          super
          FileUtils.rm_rf(@folder)
          FileUtils.cp_r(@kept, @folder)
        end
      end

      # A database on a server of the run's own.
      class Postgres < Database
        def start
          super
          @server = NeverBlockTest::PostgresServer.start(max_connections: 100)
        end

        def stop
          @server.stop
          super
        end

        # @return [String]
        def title = "PostgreSQL #{@server.query("show server_version")[/\A\d+/]}"

        def create = make("application", "template0")

        def keep = make("kept", "application")

        def reset
          super
          make("application", "kept")
        end

        def environment(adapter = nil)
          {**super, "DATABASE_URL" => @server.url("application").sub("postgresql", adapter || "postgresql")}
        end

        private

        def make(name, template)
          @server.query("drop database if exists #{name} with (force)")
          @server.query("create database #{name} template #{template}")
        end
      end
    end
  end
end
