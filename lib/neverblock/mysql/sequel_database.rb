# frozen_string_literal: true

module NeverBlock
  class MySQL
    # What Sequel's adapters for trilogy and mysql2 over shared connections have in common. A class that includes it has
    # `real_client(options)`.
    # @api private
    module SequelDatabase
      # Called by the pool, which calls {VirtualConnection#configured} when it is ready.
      # @param server [Symbol, Hash] a shard's name or options
      # @return [VirtualConnection, Mysql2VirtualConnection]
      def connect(server)
        connection = virtual_connection(shared(server_opts(server)))
        connection.configuring
        mysql_connection_setting_sqls.each { |sql| log_connection_yield(sql, connection) { connection.query(sql) } }
        connection
      end

      # @param connection [VirtualConnection, Mysql2VirtualConnection]
      # @return [void]
      def disconnect_connection(connection) = connection.close

      # Figures of the real connections, which databases of equal configuration share: as {MySQL#stats}.
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

      def virtual_connection(database) = database.connection

      # {OutcomeUnknown} and {SessionLost} are the same with each driver.
      def database_error_classes = [*super, OutcomeUnknown, SessionLost]

      # Sequel's adapters ask the driver's errors for codes that these do not have.
      def database_error_class(error, options)
        (OutcomeUnknown === error || SessionLost === error) ? Sequel::DatabaseDisconnectError : super
      end

      def disconnect_error?(error, options) = OutcomeUnknown === error || SessionLost === error || super

      # The driver changes the options that it gets.
      def shared(options)
        given = {found_rows: true, connect_timeout: CONNECT_TIMEOUT, **options,
                 username: options[:username] || options[:user]}
        given[:connections] ||= options[:max_connections]
        given[:checkout_timeout] ||= options[:pool_timeout]
        Databases.for(given.reject { |_name, value| value.respond_to?(:call) }, by: self.class) do
          real_client(given.dup)
        end
      end

      def connection_pool_default_options
        {**super, pool_class: @opts[:servers] ? SequelPools::Sharded : SequelPools::Single}
      end
    end
  end
end
