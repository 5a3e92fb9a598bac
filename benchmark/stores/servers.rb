# frozen_string_literal: true

# The stores that are measured, for as long as the block runs: private ones.
#
#   Bench::Stores::Servers.open(%w[redis postgres]) do |servers|
#     servers.place("redis")      # => {path: "/tmp/…/socket"}, for the measured process
#   end
require_relative "../../test/support/memcached"
require_relative "../../test/support/mysql_server"
require_relative "../../test/support/postgres"
require_relative "../../test/support/redis"

module Bench
  class Stores
    class Servers
      MEGABYTES = 256 # of memcached: nothing is evicted
      # The tests' server keeps 32 MB in memory; from the disk, MariaDB's is what would be measured.
      IN_MEMORY = {"innodb-buffer-pool-size": "512M", "innodb-log-file-size": "256M"}.freeze

      KINDS = {
        "memcached" => NeverBlockTest::MemcachedServer, "redis" => NeverBlockTest::RedisServer,
        "postgres" => NeverBlockTest::PostgresServer, "mariadb" => NeverBlockTest::MySQLServer
      }.freeze
      VERSION = {"memcached" => %w[memcached --version], "redis" => %w[redis-server --version], "mariadb" => %w[mariadbd --version]}.freeze

      # @param stores [Array<String>] keys of KINDS
      # @return [String, nil] the reason why they can't run
      def self.missing(stores) = stores.filter_map { |store| KINDS.fetch(store).missing }.first

      # @param stores [Array<String>]
      # @yieldparam servers [Servers]
      # @return [Object] the block's value
      def self.open(stores)
        servers = new
        stores.each { |store| servers.start(store) }
        yield servers
      ensure
        servers&.stop
      end

      def initialize
        @servers = {}
      end

      # @param store [String]
      # @return [void]
      def start(store)
        @servers[store] = case store
        when "memcached" then KINDS[store].start(megabytes: MEGABYTES)
        when "postgres" then KINDS[store].start(max_connections: 150)
        when "mariadb" then KINDS[store].start(max_connections: 150, **IN_MEMORY)
        else KINDS[store].start
        end
      end

      # @param store [String]
      # @return [Hash{Symbol=>Object}] for the store's class in child/
      def place(store)
        server = @servers.fetch(store)
        case store
        when "postgres" then {url: server.url}
        when "mariadb" then {socket: server.socket, username: NeverBlockTest::MySQLServer::USER, database: NeverBlockTest::MySQLServer::DATABASE}
        else {path: server.path}
        end
      end

      # @return [String]
      def versions
        @servers.map { |store, server| "#{STORES.fetch(store)[/\A\w+/]} #{(store == "postgres") ? server.query("show server_version")[/\S+/] : version(store)}" }.join(", ") << "."
      end

      # @return [void]
      def stop = @servers.each_value(&:stop)

      private

      def version(store)
        program, *arguments = VERSION.fetch(store)
        IO.popen([NeverBlockTest::Peer.find(program), *arguments], err: File::NULL, &:read)[/\d+\.\d+\.\d+/]
      end
    end
  end
end
