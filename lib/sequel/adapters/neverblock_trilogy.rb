# frozen_string_literal: true

require "sequel/adapters/trilogy"
require "neverblock/mysql"
require "neverblock/mysql/databases"
require "neverblock/mysql/sequel_pools"

module Sequel
  # `Sequel.connect("neverblock-trilogy://…")`: Sequel's own adapter for MySQL and MariaDB by the gem trilogy, whose
  # statements share a few real connections (`connections:`) with those of all other fibers.
  #
  #   DB = Sequel.connect("neverblock-trilogy://localhost/shop?connections=12")
  #   DB = Sequel.connect(adapter: "neverblock_trilogy", database: "shop", connections: 12)
  module NeverBlockTrilogy
    # Fibers must not use each other's transactions.
    Sequel.extension(:fiber_concurrency)

    # Its scheme is :trilogy, since extensions compare that.
    class Database < Sequel::Trilogy::Database
      %i[neverblock_trilogy neverblock-trilogy].each { |scheme| set_adapter_scheme(scheme) }

      # @return [Symbol]
      def self.adapter_scheme = :trilogy

      # Called by the pool, which calls {NeverBlock::MySQL::VirtualConnection#configured} when it is ready.
      # @param server [Symbol, Hash] a shard's name or options
      # @return [NeverBlock::MySQL::VirtualConnection]
      def connect(server)
        connection = shared(server_opts(server)).connection
        connection.configuring
        mysql_connection_setting_sqls.each { |sql| log_connection_yield(sql, connection) { connection.query(sql) } }
        connection
      end

      # @param connection [NeverBlock::MySQL::VirtualConnection]
      # @return [void]
      def disconnect_connection(connection) = connection.close

      # Figures of the real connections, which databases of equal configuration share: as {NeverBlock::MySQL#stats}.
      # @param server [Symbol, Hash] a shard's name or options
      # @return [Hash{Symbol=>Integer}]
      def stats(server = :default) = shared(server_opts(server)).stats

      # Runs the block's statements on one real connection that they don't share, and that is closed afterwards.
      #
      #   DB.without_multiplexing { DB[:partner_orders].all }
      #
      # @return [Object] the block's value
      def without_multiplexing
        synchronize { |connection| connection.without_multiplexing { yield } }
      end

      private

      # The driver changes the options that it gets.
      def shared(options)
        limit = NeverBlock::MySQL::CONNECT_TIMEOUT
        given = {found_rows: true, connect_timeout: limit, **options, username: options[:username] || options[:user]}
        given[:connections] ||= options[:max_connections]
        given[:checkout_timeout] ||= options[:pool_timeout]
        NeverBlock::MySQL::Databases.for(given.reject { |_name, value| value.respond_to?(:call) }, by: self.class) do
          ::Trilogy.new(given.dup)
        end
      end

      def connection_pool_default_options
        pools = NeverBlock::MySQL::SequelPools
        {**super, pool_class: @opts[:servers] ? pools::Sharded : pools::Single}
      end
    end
  end
end
