# frozen_string_literal: true

require "rails/railtie"
require_relative "patches/rails"

module NeverBlock
  # What a Rails app gets from `bundle add neverblock`: requests in fibers that Rails tells apart, our server as that of
  # `bin/rails server` and of system tests, the fixes that its Rails lacks, and warnings that name what is wrong.
  #
  #   # config/application.rb, where something shall be otherwise
  #   config.neverblock.skip_patches = [:live]     # of those in docs/patches.md
  #   config.neverblock.pool_wait = 0.5            # seconds from which a wait for a database connection is told; nil: never
  #
  # docs/rails.md has it all. Console, rake and other servers have no loop of ours; the level and the fixes hold there too.
  class Railtie < ::Rails::Railtie
    config.neverblock = ActiveSupport::OrderedOptions.new
    config.neverblock.skip_patches = []
    config.neverblock.pool_wait = 0.1

    # All requests are on one thread: what Rails keeps by thread would be everybody's. An app that says otherwise is warned.
    config.active_support.isolation_level = :fiber

    generators { require "generators/neverblock/install/install_generator" }

    initializer("neverblock.system_tests") do
      ActiveSupport.on_load(:action_dispatch_system_test_case) do
        require "neverblock/railtie/system_tests"
        SystemTests.register
      end
    end

    # After Rails' own, which sets the isolation level there too.
    initializer("neverblock.settings", after: "active_support.isolation_level") do |app|
      config.after_initialize do
        settings = app.config.neverblock
        Patches::Rails.apply(except: settings.skip_patches)
        Railtie.watch_pools(settings.pool_wait) if settings.pool_wait
        Railtie.tell_databases
        Railtie.prepare_to_serve(app) if Railtie.serving?
      end
    end

    # @api private
    # @return [Boolean] whether this process is there to serve, with our server
    def self.serving? = NeverBlock.const_defined?(:Server, false)

    # @api private
    # Rails' log, where it is a file, is opened again with the server's.
    def self.prepare_to_serve(app)
      require_relative "server/events"
      Server::Events.on_reopen { ::Rails.logger.reopen if ::Rails.logger.respond_to?(:reopen) }
      require_relative "railtie/advice"
      Advice.new(app).call { |line| log(line) }
    end

    # @api private
    def self.watch_pools(seconds)
      ActiveSupport.on_load(:active_record) do
        require "neverblock/railtie/pool_watch"
        require "neverblock/patches/rails/pool_wait"
        Patches::Rails::PoolWait.apply(PoolWatch.new(seconds))
      end
    end

    # @api private
    # What an adapter that shares connections amounts to here.
    def self.tell_databases
      ActiveSupport.on_load(:active_record) do
        require "neverblock/postgres/databases"
        Postgres::Databases.log = ->(line, level) { (level == :info) ? Railtie.note(line) : Railtie.log(line, level) }
        configs = ActiveRecord::Base.configurations.configs_for(env_name: ::Rails.env).select { |config| ActiveRecordAdapters.known?(config.adapter) }
        configs.each do |config|
          require "neverblock/postgres"
          Railtie.note("database #{config.name}: adapter #{config.adapter}, #{Postgres::Databases.describe(config.configuration_hash)}")
        end
        if Railtie.serving?
          require_relative "railtie/poolers"
          Poolers.verify(configs) { |line| Railtie.log(line) }
        end
      end
    end

    # @api private
    # What is so, for who reads the log of a server: a console, a runner or a rake task has something else to say.
    # @param line [String]
    def self.note(line) = log(line, serving? ? :info : :debug)

    # @api private
    # @param line [String]
    def self.log(line, level = :warn) = ::Rails.logger&.public_send(level, "neverblock: #{line}")
  end
end

require_relative "active_record" if defined?(ActiveRecord)
NeverBlock::Patches::Rails::Server.apply if defined?(Rails::Server)
