# frozen_string_literal: true

require "rails/railtie"
require_relative "patches/rails"

module NeverBlock
  # Integrates NeverBlock into a Rails app whose Gemfile has it: requests in fibers that Rails
  # isolates, the server for `bin/rails server` and system tests, the patches that the Rails version
  # needs, and warnings with remedies.
  #
  #   # config/application.rb, for other settings
  #   config.neverblock.skip_patches = [:live]     # names of docs/patches.md
  #   config.neverblock.pool_wait = 0.5            # log waits for a database connection from so many seconds on
  #   config.neverblock.revision = "4f2a91c"       # of the release, for NeverBlock::Cache; false: none
  #
  # docs/rails.md describes the integration. The isolation level and the patches also apply to consoles, rake and other
  # servers, which have no loop. `railtie/` has the parts:
  #
  #   command.rb        `bin/rails server`
  #   system_tests.rb   the server of system tests
  #   advice.rb         warns about gems and settings that hold the loop
  #   pool_watch.rb     logs waits for a database connection
  #   poolers.rb        verifies settings through PgBouncer at boot
  #   revision.rb       finds out which release of the app this is
  class Railtie < ::Rails::Railtie
    config.neverblock = ActiveSupport::OrderedOptions.new
    config.neverblock.skip_patches = []
    config.neverblock.pool_wait = 0.1
    config.neverblock.action_store = nil # of NeverBlock::ActionCaching; nil: Rails.cache
    config.neverblock.action_caching_guard = nil # nil: :raise in development and tests, :skip in production
    config.neverblock.action_caching_personal = [] # further methods of controllers that give the user
    config.neverblock.revision = nil # what Revision finds

    # All requests run on one thread, so state per thread would be shared. An app with another level is not served.
    config.active_support.isolation_level = :fiber

    generators { require "generators/neverblock/install/install_generator" }

    initializer("neverblock.system_tests") do
      ActiveSupport.on_load(:action_dispatch_system_test_case) do
        require "neverblock/railtie/system_tests"
        SystemTests.register
      end
    end

    # Runs after Rails' own initializer, which sets the isolation level too.
    initializer("neverblock.settings", after: "active_support.isolation_level") do |app|
      config.after_initialize do
        settings = app.config.neverblock
        Patches::Rails.apply(except: settings.skip_patches)
        Railtie.watch_pools(settings.pool_wait) if settings.pool_wait
        Railtie.tell_databases
        Railtie.prepare_to_serve(app) if Railtie.serving?
      end
    end

    # `Rails.cache.fetch(key, collapse: true)`. An initializer of the app may have replaced Rails.cache.
    initializer("neverblock.collapsing") do
      config.after_initialize do
        next unless ::Rails.cache.is_a?(ActiveSupport::Cache::Store)
        require "neverblock/cache/collapsing"
        ::Rails.cache.extend(Cache::Collapsing)
      end
    end

    # A fetch of the cache runs in a fiber of its own, which has to return its connections as a request does.
    initializer("neverblock.cache") do |app|
      config.after_initialize do
        require_relative "railtie/request_state"
        Cache::OuterState.probe = RequestState.method(:name)
        Cache::Background.wrapper = -> { app.executor.method(:wrap) if app.executor.active? }
      end
    end

    # Its module registers itself, so that a process without controllers, such as a task, purges stored responses too.
    initializer("neverblock.action_caching") { config.after_initialize { ActionCaching } }

    # A cache takes the default when it is made: with the other middleware, after the app's own initializers.
    initializer("neverblock.revision", after: :load_config_initializers, before: :build_middleware_stack) do |app|
      require_relative "railtie/revision"
      settings = app.config.neverblock
      settings.revision = Revision.find(root: app.root) if settings.revision.nil?
      Cache.default_revision = settings.revision || nil
    end

    # @api private
    # @return [Boolean] whether this process runs our server
    def self.serving? = NeverBlock.const_defined?(:Server, false)

    # @api private
    # Reopens Rails' log file together with the server's log.
    # @raise [ConfigurationError] if the app has set the wrong isolation level
    def self.prepare_to_serve(app)
      require_relative "active_record/fiber_isolation"
      FiberIsolation.check
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
    # Logs the capacity of each database with an adapter that shares connections.
    def self.tell_databases
      ActiveSupport.on_load(:active_record) do
        require "neverblock/postgres/databases"
        Postgres::Databases.log = ->(line, level) { (level == :info) ? Railtie.note(line) : Railtie.log(line, level) }
        configs = ActiveRecord::Base.configurations.configs_for(env_name: ::Rails.env).select do |config|
          ActiveRecordAdapters.known?(config.adapter)
        end
        configs.each do |config|
          Railtie.note("database #{config.name}: adapter #{config.adapter}, #{ActiveRecordAdapters.describe(config)}")
        end
        if Railtie.serving?
          require_relative "railtie/poolers"
          Poolers.verify(configs) { |line| Railtie.log(line) }
        end
      end
    end

    # @api private
    # Logs an informational line: at :info in a server; at :debug in a console, a runner or a rake task.
    # @param line [String]
    def self.note(line) = log(line, serving? ? :info : :debug)

    # @api private
    # @param line [String]
    def self.log(line, level = :warn) = ::Rails.logger&.public_send(level, "neverblock: #{line}")
  end
end

require_relative "active_record" if defined?(ActiveRecord)
NeverBlock::Patches::Rails::Server.apply if defined?(Rails::Server)
