# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # With `adapter: neverblock_postgresql` the size of the pool is `connections:`, 12 unless it is said. `pool:`, which
      # `rails new` writes for a handful of threads, does not count. Other adapters are left alone.
      module PoolSize
        # Connections of a process.
        DEFAULT = 12

        # Prepended to ActiveRecord::DatabaseConfigurations::HashConfig, with `pool` and, from Rails 8.1 on, `max_connections`.
        module Config
          private

          def connections
            wanted = configuration_hash.fetch(:connections, DEFAULT)
            Integer(wanted, exception: false)&.then { |number| return number if number > 0 }
            raise ConfigurationError, "config/database.yml, #{name}: connections: #{wanted.inspect} is no whole number from 1 on"
          end
        end

        def self.apply
          config = ActiveRecord::DatabaseConfigurations::HashConfig
          %i[pool max_connections].each do |name|
            next unless config.method_defined?(name)
            Config.define_method(name) { (adapter == "neverblock_postgresql") ? connections : super() }
          end
          config.prepend(Config)
        end
      end
    end
  end
end
