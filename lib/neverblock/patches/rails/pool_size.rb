# frozen_string_literal: true

module NeverBlock
  module Patches
    module Rails
      # Removes the bound of Active Record's pool for adapters that share connections. Such a pool holds adapters, one
      # per fiber; `connections:` bounds the real connections. `pool:`, which `rails new` sets for a few threads, is
      # ignored. Other adapters are unchanged.
      module PoolSize
        # The pool size for Rails before 8.1, which needs a number.
        UNBOUNDED = 1_000_000

        # Threads of load_async, which Rails derives from the pool size.
        THREADS = 5

        # Prepended to ActiveRecord::DatabaseConfigurations::HashConfig, with `pool` and, from
        # Rails 8.1 on, `max_connections`.
        module Config
          # @return [Integer]
          def max_threads
            ActiveRecordAdapters.known?(adapter) ? (configuration_hash[:max_threads] || THREADS).to_i : super
          end
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
