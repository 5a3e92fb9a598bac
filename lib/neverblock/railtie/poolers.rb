# frozen_string_literal: true

module NeverBlock
  class Railtie
    # Verifies at boot that settings made on connect arrive through a PgBouncer in transaction mode.
    #
    #   Poolers.verify(ActiveRecord::Base.configurations.configs_for(env_name: "production")) { |line| puts line }
    # @api private
    module Poolers
      # @param configs [Array<ActiveRecord::DatabaseConfigurations::DatabaseConfig>] whose adapters share connections
      # @yieldparam line [String] a line about a database that did not answer
      # @return [void]
      # @raise [ConfigurationError] if a setting does not arrive
      def self.verify(configs)
        configs.each do |config|
          next unless config.configuration_hash[:pgbouncer].to_s == "transaction"
          connection = config.new_connection
          connection.select_value("select 1")
        rescue ActiveRecord::ActiveRecordError => error
          yield "database #{config.name}: settings made on connect could not be verified through PgBouncer; " \
            "the first request verifies them: #{error.message.strip}"
        ensure
          connection&.disconnect!
        end
      end
    end
  end
end
