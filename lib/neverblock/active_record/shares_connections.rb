# frozen_string_literal: true

require_relative "adapters"
require_relative "fiber_isolation"
require_relative "reads_schema_aside"
require_relative "release"
require_relative "restores_transactions"
NeverBlock::ActiveRecordRelease.check
require "active_record/connection_adapters/postgresql_adapter"
require_relative "../postgres"
require_relative "../postgres/databases"
require_relative "../patches/rails/connected_to"

module NeverBlock
  # Makes statements of an Active Record adapter for PostgreSQL share a few real connections (`connections:`) with those
  # of other requests. `adapter: neverblock_postgresql` is Rails' own adapter with this module, `adapter:
  # neverblock_postgis` that of activerecord-postgis-adapter. It can be included in another subclass of Rails' adapter:
  #
  #   # lib/shop_adapter.rb
  #   require "neverblock/active_record/shares_connections"
  #   class ShopAdapter < ActiveRecord::ConnectionAdapters::PostGISAdapter
  #     include NeverBlock::SharesConnections
  #   end
  #
  #   # config/application.rb: now there is adapter: shop
  #   NeverBlock::ActiveRecordAdapters.register("shop", "ShopAdapter", "shop_adapter", types_of: "postgis")
  #
  # Each fiber has its own adapter, with Active Record's state. Its raw connection is a {Postgres::VirtualConnection}.
  module SharesConnections
    include ReadsSchemaAside
    include RestoresTransactions

    # Extends the adapter's class.
    module ClassMethods
      # The types of the superclass, whose `datetime_type` an app sets.
      # @return [Hash]
      def native_database_types = superclass.native_database_types # :nodoc:
    end
    private_constant :ClassMethods

    # Whether Rails' adapter has `perform_query`; that of 7.2 has not.
    PERFORMS = ActiveRecord::ConnectionAdapters::PostgreSQLAdapter.private_method_defined?(:perform_query)
    private_constant :PERFORMS

    # @param adapter [Class]
    # @raise [ConfigurationError] if it is not a subclass of Rails' adapter for PostgreSQL
    def self.included(adapter)
      unless adapter < ActiveRecord::ConnectionAdapters::PostgreSQLAdapter
        raise ConfigurationError, "#{self} was included in #{adapter}, which is not a subclass of " \
          "ActiveRecord::ConnectionAdapters::PostgreSQLAdapter. Include it in one that is"
      end
      super
      adapter.extend(ClassMethods)
      return unless PERFORMS
      # A super with keywords is not compiled by YJIT, and makes an object.
      adapter.define_method(:perform_query_as_before, adapter.superclass.instance_method(:perform_query))
      adapter.send(:private, :perform_query_as_before)
    end

    # What the adapters of one database share: asking the server for it takes a millisecond.
    Types = Struct.new(:map, :results, :own_results, :timestamp, :search_paths)
    private_constant :Types

    # Called by the pool when it hands the adapter out; if it raises, the pool drops the adapter. (Active Record's
    # callbacks would do too, at ten times the cost.)
    # @raise [ConfigurationError] if fibers would share adapters
    def clean! # :nodoc:
      FiberIsolation.check if Scheduler.current
      super
    end

    # Called by the pool when it gets the adapter back. If the adapter was taken away during a transaction, later
    # statements of the transaction must fail: each would be committed by itself.
    def expire(...) # :nodoc:
      super
      stolen, @stolen = @stolen, false
      return unless @raw_connection
      broken_off = stolen && !@raw_connection.finished? && @raw_connection.transaction_status != PG::PQTRANS_IDLE
      @raw_connection.check_in
      session_ended
      @raw_connection.close if broken_off
    end

    # Called by the pool when it takes the adapter away from a fiber or thread that has not returned it.
    def steal! # :nodoc:
      super
      @stolen = true
    end

    # Runs a transaction with settings that end with it: for tenants by role, by schema, or by row-level security.
    #
    #   Order.with_connection { |connection| connection.with_settings("app.tenant" => 7) { Order.count } }
    #
    # @param settings [Hash{String, Symbol=>Object}]
    # @return [Object] the block's value
    # @raise [ConfigurationError] if a name can't be a setting's, or a transaction is open: they'd last until its end
    def with_settings(settings)
      statements = Postgres::LocalSettings.statements(settings, inside: transaction_open?)
      clear_query_cache # its rows are those of other settings
      transaction do
        statements.each { |sql| execute(sql) }
        yield
      end
    ensure
      clear_query_cache
    end

    # Runs the block's statements on one real connection that they don't share, and that is reset afterwards. For
    # session state that the text of a statement does not show, such as a view that calls functions of yours.
    #
    #   Order.with_connection { |connection| connection.without_multiplexing { Order.from_partner.to_a } }
    #
    # @return [Object] the block's value
    def without_multiplexing(&)
      verify! unless @raw_connection
      @raw_connection.without_multiplexing(&)
    ensure
      session_ended unless @raw_connection&.changed? # there is no session state, by the block or from before it
    end

    # @return [String, nil] why it has a lease
    def held_for = @raw_connection&.then { |raw| raw.leased_for || ("a block" if raw.without_multiplexing?) } # :nodoc:

    # @return [NeverBlock::Postgres, nil] the one whose connections it uses; nil: it has not connected yet
    def multiplexed = @database # :nodoc:

    # Inside a loop it needs neither threads nor an executor. It is refused in a transaction or with session state,
    # which the other adapter would not have. (Rails refuses it in a transaction only if there is an executor.)
    # @return [Boolean] whether `load_async` runs beside its caller
    def async_enabled? # :nodoc:
      return super if Scheduler.current.nil? || transaction_open?
      connection = @raw_connection
      if connection && (connection.without_multiplexing? || connection.changed? ||
          connection.transaction_status != PG::PQTRANS_IDLE)
        return false
      end
      pool.respond_to?(:schedule_query) && async_session?
    end

    # Rails calls it with the lock of the pool's configuration. An adapter that connects within would wait for the first
    # adapter, which calls it too, so it connects before.
    def database_version # :nodoc:
      verify! unless @raw_connection
      super
    end

    def postgresql_version # :nodoc:
      verify! unless @raw_connection
      super
    end

    def get_database_version # :nodoc:
      @raw_connection&.server_version || super
    end

    # With `insert_returning: false` Rails reads the sequence afterwards, which must be on the same connection. In a
    # transaction it is the same one anyway.
    def exec_insert(sql, name = nil, binds = [], pk = nil, sequence_name = nil, returning: nil) # :nodoc:
      return super if use_insert_returning? || pk == false || transaction_open?
      without_multiplexing { super }
    end

    # If no connection is open, it opens one.
    # @return [Boolean, nil] whether the server is reachable
    def active? # :nodoc:
      super
    rescue ActiveRecord::ConnectionNotEstablished
      false
    end

    # Called in a forked child: the raw connection has no socket that is the parent's.
    # @return [void]
    def discard! # :nodoc:
      @raw_connection = nil
      super
    end

    # @return [void]
    def reload_type_map # :nodoc:
      return super unless @raw_connection
      @lock.synchronize do
        known = @database.types[own_kind]
        if known&.map && @configuring
          @type_map = known.map
        else
          @type_map = nil # the other adapters keep theirs
          super
          types.map = @type_map
        end
      end
    end

    private

    # @return [Boolean] whether there is a session for asynchronous queries; Rails' executor begins one for each request
    def async_session?
      ActiveRecord::Base.asynchronous_queries_session
      true
    rescue ActiveRecord::ActiveRecordError
      false
    end

    # Configurations with other `variables:` have connections of their own, so that none waits for the other's.
    def connect
      kind = self.class
      by = [kind.method(:new_client).owner, @config[:variables].to_h]
      @database ||= Postgres::Databases.for(@connection_parameters, @config, Postgres::Options::ACTIVE_RECORD, by:) {
        kind.new_client(@connection_parameters)
      }.tap { |database| database.reaper = REAPER }
      connection = @database.connection(member: true)
      connection.verify
      # Waits here: later Active Record asks with a lock held, which a child forked meanwhile could never get.
      connection.server_version
      @raw_connection = connection
    ensure
      connection&.close unless connection.equal?(@raw_connection)
    end

    # The first adapter of a database reads its types; adapters that are made meanwhile wait for that. If its connection
    # is lost meanwhile, this is called again within.
    def configure_connection
      first = false
      unless types.search_paths.any? || @first
        TYPES_FLIGHT.call([@database, *own_kind]) do
          first = @first = true
          configure { super() }
        ensure
          @first = false
        end
      end
      configure { super() } unless first
      whole = true
    ensure
      disconnect! unless whole # Active Record does it after exceptions, but not after Fiber#kill and Thread#kill
    end

    # Rails' pool reaps only when it runs out of adapters. Ours never runs out, so we reap here.
    REAPER = lambda do
      ActiveRecord::Base.connection_handler.connection_pool_list(:all).each do |pool|
        pool.reap if ActiveRecordAdapters.known?(pool.db_config.adapter)
      end
    end

    TYPES_FLIGHT = Flight.new
    private_constant :TYPES_FLIGHT, :REAPER

    # A search_path of the configuration is part of the session defaults. Else the first adapter asks the server for it.
    def configure
      @configuring = true
      own = @config.values_at(:schema_search_path, :schema_order, :variables)
      @schema_search_path = (types.search_paths[own] unless own[0] || own[1])
      @raw_connection.configure { yield }
      @own_search_path = types.search_paths[own] ||= schema_search_path
    ensure
      @configuring = false
    end

    # The next session begins with the configured search_path.
    def session_ended
      @schema_search_path = @own_search_path
    end

    def types = @database.types[own_kind] ||= Types.new(search_paths: {})

    # Key of the types: other classes of adapters have others.
    def own_kind = [self.class, default_timezone]

    def add_pg_decoders
      known = @database.types[own_kind]
      if known&.results
        @raw_connection.type_map_for_results = known.results
        @type_map_for_results = known.own_results
        @timestamp_decoder = known.timestamp
        @mapped_default_timezone = nil
        reconfigure_connection_timezone
        @mapped_default_timezone = default_timezone
      else
        super
        types.results = @raw_connection.type_map_for_results
        types.own_results = @type_map_for_results
        types.timestamp = @timestamp_decoder
      end
    end

    # Adds to the payload of `sql.active_record`: `:queue_time`, the seconds that the statement waited for a real
    # connection; and `:pipeline`, the number of its pipeline, if it was sent in one.
    if PERFORMS
      def perform_query(raw_connection, sql, binds, type_casted_binds, prepare:, notification_payload:, batch: false)
        perform_query_as_before(raw_connection, sql, binds, type_casted_binds, prepare:, notification_payload:, batch:)
      ensure
        queued(raw_connection, notification_payload)
      end
    else # Rails 7.2
      def log(*, **)
        super do |payload|
          yield payload
        ensure
          queued(@raw_connection, payload)
        end
      end
    end

    def queued(raw_connection, payload)
      seconds = payload[:queue_time] = raw_connection&.queue_time || 0.0
      note_pipeline(payload) if raw_connection&.pipelined?
      return unless seconds > 0 && defined?(Patches::Rails::PoolWait)
      Patches::Rails::PoolWait.watch&.waited(@pool, seconds)
    end

    def note_pipeline(payload)
      return unless (pipeline = Postgres::Pipeline.current)
      payload[:pipeline] = pipeline.id
      pipeline.note(payload[:name])
    end

    def translate_exception(exception, message:, sql:, binds:)
      return super unless Postgres::PoolTimeout === exception
      ActiveRecord::ConnectionTimeoutError.new(exception.message, connection_pool: @pool)
    end

    # A statement that has timed out waiting does not wait again.
    def retryable_connection_error?(exception) = !exception.is_a?(ActiveRecord::ConnectionTimeoutError) && super
  end
end

ActiveSupport.on_load(:active_record) { NeverBlock::Patches::Rails::ConnectedTo.apply }
