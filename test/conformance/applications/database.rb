# frozen_string_literal: true

require "fileutils"
require "socket"
require_relative "../../support/postgres"
require_relative "../../support/memcached"
require_relative "../../support/redis"

module Conformance
  module Applications
    # An application's storage: its database, a Redis, and a memcached if it needs one. Each run begins with the state
    # after seeding.
    #
    #   database = Database.for({"database" => "postgresql"}, folder)
    #   database.start
    #   database.create
    #   database.keep       # saves the prepared state
    #   database.reset      # restores it
    #   database.stop
    class Database
      # @param description [Hash] of the application: `database`, sqlite or postgresql; `folder`, the folder of SQLite's
      #   files; `memcached`, whether it needs one
      # @param copy [String] the application's folder
      # @return [Database]
      def self.for(description, copy)
        database = (description.fetch("database") == "sqlite") ? Sqlite.new(File.join(copy, description.fetch("folder"))) : Postgres.new
        database.servers << NeverBlockTest::MemcachedServer if description["memcached"]
        database
      end

      # @return [Array<Class>] servers beside the database
      attr_reader :servers

      def initialize = @servers = [NeverBlockTest::RedisServer]

      # @return [void]
      def start
        missing = servers.filter_map(&:missing).first and raise missing
        @redis, @memcached = servers.map(&:start)
      end

      # @return [void]
      def stop = [@redis, @memcached].compact.each(&:stop)

      # @param _adapter [String, nil] the scheme of the database's address, if it is not Rails' own
      # @return [Hash{String=>String}]
      def environment(_adapter = nil) = {"REDIS_URL" => "unix://#{@redis.path}", "MEMCACHED_URL" => @memcached&.path}

      # @return [void]
      def reset = {@redis => "FLUSHALL", @memcached => "flush_all"}.each { |server, command| ask(server.path, command) if server }

      # @return [String] the server's answer
      def ask(path, command) = UNIXSocket.open(path) { |server| server.write("#{command}\r\n") && server.gets }

      # Files in a folder.
      class Sqlite < Database
        def initialize(folder)
          super()
          @folder = folder
          @kept = "#{folder}-kept"
        end

        # @return [String]
        def title = "SQLite"

        # A used checkout may have a database already.
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

      # A database on a server of this run.
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
