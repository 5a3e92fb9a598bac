# frozen_string_literal: true

require "sequel/adapters/postgres"
require "neverblock/postgres"
require "neverblock/postgres/databases"
require "neverblock/postgres/sequel_pools"

module Sequel
  # `Sequel.connect("neverblock-postgres://…")`: Sequel's own adapter for PostgreSQL, whose statements share a few real
  # connections (`connections:`) with those of all other fibers.
  #
  #   DB = Sequel.connect("neverblock-postgres://localhost/shop?connections=12")
  #   DB = Sequel.connect(adapter: "neverblock_postgres", database: "shop", connections: 12)
  module NeverBlockPostgres
    # Fibers must not use each other's transactions.
    Sequel.extension(:fiber_concurrency)

    # Sequel's class of connections, made virtual.
    class Connection < Sequel::Postgres::Adapter
      include NeverBlock::Postgres::Virtual

      # @api private
      # @param database [Database] its database
      # @param options [Hash{Symbol=>Object}] the database's options
      # @return [void]
      def belong(database, options)
        @db = database
        @prepared_statements = {}
        self.type_map_for_queries = Sequel::Postgres::PG_QUERY_TYPE_MAP
        set_notice_receiver(&options[:notice_receiver]) if options[:notice_receiver]
      end
    end

    # Its scheme is :postgres, since extensions compare that.
    class Database < Sequel::Postgres::Database
      %i[neverblock_postgres neverblock_postgresql neverblock-postgres neverblock-postgresql].each { |scheme|
        set_adapter_scheme(scheme)
      }

      # @return [Symbol]
      def self.adapter_scheme = :postgres

      # Called by the pool, which then calls {Connection#configured}.
      # @param server [Symbol, Hash] a shard's name or options
      # @return [Connection]
      def connect(server)
        options = server_opts(server)
        connection = shared(options).connection(Connection, member: true)
        connection.belong(self, options)
        connection.configuring
        encoding = options[:encoding] || options[:charset]
        connection.set_client_encoding(encoding) if encoding
        connection_configuration_sqls(options).each { |sql| connection.execute(sql) }
        connection.server_version # opens a real connection, so that errors are raised here, as by the plain adapter
        whole = connection
      ensure
        connection&.finish unless whole # a killed fiber runs no rescue
      end

      # The connection knows it; the plain adapter would send a query.
      # @return [Integer] such as 170002
      def server_version(server = nil) = @server_version ||= synchronize(server, &:server_version)

      # Runs a transaction with settings that end with it: for tenants by role, by schema, or by row-level security.
      #
      #   DB.with_settings("app.tenant" => 7) { DB[:orders].count }
      #
      # @param settings [Hash{String, Symbol=>Object}]
      # @return [Object] the block's value
      # @raise [NeverBlock::ConfigurationError] if a name can't be a setting's, or a transaction is open
      def with_settings(settings)
        statements = NeverBlock::Postgres::LocalSettings.statements(settings, inside: in_transaction?)
        transaction do
          statements.each { |sql| run(sql) }
          yield
        end
      end

      # Figures of the real connections, which databases of equal configuration share: as {NeverBlock::Postgres#stats}.
      # @param server [Symbol, Hash] a shard's name or options
      # @return [Hash{Symbol=>Object}]
      def stats(server = :default) = shared(server_opts(server)).stats

      # Runs the block's statements on one real connection that they don't share, and that is reset afterwards. For
      # session state that the text of a statement does not show, such as a view that calls functions of yours.
      #
      #   DB.without_multiplexing { DB[:partner_orders].all }
      #
      # @return [Object] the block's value
      def without_multiplexing
        synchronize { |connection| connection.without_multiplexing { yield } }
      end

      private

      def shared(options)
        parameters = parameters(options)
        NeverBlock::Postgres::Databases.for(parameters, settings(options)) { PG.connect(parameters) }
      end

      # The same parameters as the plain adapter's.
      def parameters(options)
        return options[:conn_str] if options[:conn_str]
        given = options.slice(:host, :port, :user, :password, :sslmode, :sslrootcert).compact
        parameters = {connect_timeout: 20, **given, dbname: options[:database]}
        parameters[:connect_timeout] = options[:connect_timeout] if options[:connect_timeout]
        parameters.reject { |_name, value| blank_object?(value) }.merge!(options[:driver_options] || {})
      end

      def settings(options)
        {connections: options[:max_connections], checkout_timeout: options[:pool_timeout], **options}
      end

      def connection_pool_default_options
        pools = NeverBlock::Postgres::SequelPools
        {**super, pool_class: @opts[:servers] ? pools::Sharded : pools::Single}
      end
    end
  end
end
