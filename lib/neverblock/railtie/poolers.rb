# frozen_string_literal: true

module NeverBlock
  class Railtie
    # What is set on connect must arrive through a PgBouncer in transaction mode. Where it does not, the server is told when it boots,
    # not the first request.
    #
    #   Poolers.verify(ActiveRecord::Base.configurations.configs_for(env_name: "production")) { |line| puts line }
    # @api private
    module Poolers
      # @param configs [Array<ActiveRecord::DatabaseConfigurations::DatabaseConfig>] whose adapters share connections
      # @yieldparam line [String] of a database that did not answer
      # @return [void]
      # @raise [ConfigurationError]
      def self.verify(configs)
        configs.each do |config|
          next unless config.configuration_hash[:pgbouncer].to_s == "transaction"
          connection = config.new_connection
          connection.select_value("select 1")
        rescue ActiveRecord::ActiveRecordError => error
          yield "database #{config.name}: whether what is set on connect arrives through PgBouncer could not be seen, and will be by its first request: #{error.message.strip}"
        ensure
          connection&.disconnect!
        end
      end
    end
  end
end
