# frozen_string_literal: true

module NeverBlock
  # Registers the names of adapters whose statements share connections, for `adapter:` in config/database.yml.
  #
  #   NeverBlock::ActiveRecordAdapters.register("shop", "ShopAdapter", "shop_adapter", types_of: "postgis")
  #
  # Such an adapter includes {SharesConnections}. This file loads neither that nor the gem pg.
  module ActiveRecordAdapters
    # Our own, which may be asked for before they are registered.
    @names = {"neverblock_postgresql" => :postgresql, "neverblock_postgis" => :postgis,
              "neverblock_mysql" => :trilogy, "neverblock_trilogy" => :trilogy, "neverblock_mysql2" => :mysql2}

    class << self
      # @param name [String] for `adapter:`
      # @param class_name [String] of a class that includes {SharesConnections}
      # @param path [String] required when the adapter is first used
      # @param types_of [String] adapter with equal attribute types: `ActiveRecord::Type.register(…, adapter: :postgis)`
      # @return [void]
      def register(name, class_name, path = class_name.underscore, types_of: "postgresql")
        @names[name.to_s] = types_of.to_sym
        ActiveRecord::ConnectionAdapters.register(name, class_name, path)
        ActiveRecord::Tasks::DatabaseTasks.register_task(/\A#{Regexp.escape(name)}\z/,
          "ActiveRecord::Tasks::PostgreSQLDatabaseTasks")
      end

      # @param name [String, nil]
      # @return [Boolean] whether it is registered
      def known?(name) = @names.key?(name)

      # @api private
      # @param name [String, nil]
      # @return [Boolean] whether its database is MySQL or MariaDB
      def mysql?(name) = %i[trilogy mysql2].include?(@names[name])

      # @api private
      # @param config [ActiveRecord::DatabaseConfigurations::HashConfig] with one of them
      # @return [String] the options in force, for the log
      # @raise [ConfigurationError] for an invalid value
      def describe(config)
        if mysql?(config.adapter)
          require_relative "../mysql"
          require_relative "../mysql/databases"
          return MySQL::Databases.describe(config.configuration_hash, @names.fetch(config.adapter))
        end
        require_relative "../postgres"
        Postgres::Databases.describe(config.configuration_hash)
      end

      # @api private
      # @param name [String, nil]
      # @return [Symbol, nil] name by which its attribute types are registered
      def types_of(name) = @names[name]
    end
  end
end
