# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # With an adapter that shares connections the pool is one of adapters, of which each fiber has its own, and is not bounded:
      # `connections:` bounds what is beneath them. `pool:`, which `rails new` writes for a handful of threads, does not count.
      # Other adapters are left alone.
      module PoolSize
        # Rails before 8.1 wants a number.
        UNBOUNDED = 1_000_000

        # Threads of load_async, which Rails takes from the size of the pool.
        THREADS = 5

        # Prepended to ActiveRecord::DatabaseConfigurations::HashConfig, with `pool` and, from Rails 8.1 on, `max_connections`.
        module Config
          # @return [Integer]
          def max_threads = ActiveRecordAdapters.known?(adapter) ? (configuration_hash[:max_threads] || THREADS).to_i : super
        end

        def self.apply
          config = ActiveRecord::DatabaseConfigurations::HashConfig
          size = config.method_defined?(:max_connections) ? nil : UNBOUNDED
          %i[pool max_connections].each do |name|
            next unless config.method_defined?(name)
            Config.define_method(name) { ActiveRecordAdapters.known?(adapter) ? size : super() }
          end
          config.prepend(Config)
        end
      end
    end
  end
end
