# frozen_string_literal: true

require_relative "adapters"
require_relative "release"
NeverBlock::ActiveRecordRelease.check
require "active_record/connection_adapters/postgresql_adapter"
require_relative "../postgres"
require_relative "../postgres/databases"

module NeverBlock
  # Makes an adapter of Active Record for PostgreSQL one whose statements share a few real connections (`connections:`) with those of all
  # other requests: `adapter: neverblock_postgresql` is Rails' own with this, `adapter: neverblock_postgis` that of
  # activerecord-postgis-adapter. Another one that is a subclass of Rails' becomes so in an app:
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
  # Each fiber has an adapter of its own, with all of Active Record's state; what is beneath it is a {Postgres::VirtualConnection}.
  module SharesConnections
    # What the class itself gets.
    module ClassMethods
      # Those of the class that it is made of, whose `datetime_type` one sets.
      # @return [Hash]
      def native_database_types = superclass.native_database_types # :nodoc:
    end
    private_constant :ClassMethods

    # @param adapter [Class]
    # @raise [ConfigurationError] if it is no subclass of Rails' adapter for PostgreSQL
    def self.included(adapter)
      unless adapter < ActiveRecord::ConnectionAdapters::PostgreSQLAdapter
        raise ConfigurationError, "#{self} was included in #{adapter}, which is no subclass of ActiveRecord::ConnectionAdapters::PostgreSQLAdapter: it shares connections of PostgreSQL alone"
      end
      super
      adapter.extend(ClassMethods)
    end

    # What adapters of one database have in common, since asking the server for it costs each a millisecond.
    Types = Struct.new(:map, :results, :own_results, :timestamp, :search_paths)
    private_constant :Types

    # By the pool, for whom asks for a connection. (Callbacks of Active Record's would do, at ten times the cost.)
    # @raise [ConfigurationError] where fibers would share adapters
    def lease # :nodoc:
      check_isolation if Scheduler.current
      super
    end

    # By the pool, when it gets it back. Where it was taken away in the midst of a transaction, what that does next must fail: it would be
    # committed by itself.
    def expire(...) # :nodoc:
      super
      stolen, @stolen = @stolen, false
      return unless @raw_connection
      broken_off = stolen && !@raw_connection.finished? && @raw_connection.transaction_status != PG::PQTRANS_IDLE
      @raw_connection.check_in
      session_ended
      @raw_connection.close if broken_off
    end

    # By the pool, from whom does not give it back.
    def steal! # :nodoc:
      super
      @stolen = true
    end

    # A transaction with settings of its own, which end with it: for tenants by role, by schema, or by row-level security.
    #
    #   Order.with_connection { |connection| connection.with_settings("app.tenant" => 7) { Order.count } }
    #
    # @param settings [Hash{String, Symbol=>Object}]
    # @return [Object] the block's value
    # @raise [ConfigurationError] if a name can't be a setting's, or a transaction is open: they would last until its end
    def with_settings(settings)
      statements = Postgres::LocalSettings.statements(settings, inside: transaction_open?)
      clear_query_cache # whose rows are those of other settings
      transaction do
        statements.each { |sql| execute(sql) }
        yield
      end
    ensure
      clear_query_cache
    end

    # Statements of the block share no connection, whatever they are: they have a real one for themselves, which is made as new
    # afterwards. For what the text of a statement does not tell, such as a view that calls functions of yours.
    #
    #   Order.with_connection { |connection| connection.without_multiplexing { Order.from_partner.to_a } }
    #
    # @return [Object] the block's value
    def without_multiplexing(&)
      verify! unless @raw_connection
      @raw_connection.without_multiplexing(&)
    ensure
      session_ended unless @raw_connection&.changed? # nothing is kept, by the block or from before it
    end

    # @return [String, nil] why it has a real connection for itself
    def held_for = @raw_connection&.then { |raw| raw.leased_for || ("a block" if raw.without_multiplexing?) } # :nodoc:

    # @return [NeverBlock::Postgres, nil] whose connections it uses, once it has connected
    def multiplexed = @database # :nodoc:

    # By whom it is connected again. Where that fails, and is tried once more, Active Record has lost the transaction that it began with,
    # and goes on without one.
    def reset_transaction(restore: false) # :nodoc:
      before = @transaction_manager
      value = super
      whole = true
      value
    ensure
      @transaction_manager = before if restore && !whole
    end

    # Inside a loop it needs no threads, and so no executor of them. Another adapter would have none of what this one's session or
    # transaction has. (Rails refuses it in a transaction where there is an executor, and else does not ask.)
    # @return [Boolean] whether `load_async` runs beside its caller
    def async_enabled? # :nodoc:
      return super if Scheduler.current.nil? || transaction_open?
      return false if @raw_connection && (@raw_connection.without_multiplexing? || @raw_connection.changed? || @raw_connection.transaction_status != PG::PQTRANS_IDLE)
      pool.respond_to?(:schedule_query) && async_session?
    end

    # Rails asks for it with the lock of the pool's configuration: who had to connect then would wait for the first adapter, which
    # asks for it too.
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

    # With `insert_returning: false` the sequence is asked afterwards, on the same connection: in a transaction it is anyway.
    def exec_insert(sql, name = nil, binds = [], pk = nil, sequence_name = nil, returning: nil) # :nodoc:
      return super if use_insert_returning? || pk == false || transaction_open?
      without_multiplexing { super }
    end

    # Where no connection is left, it finds out by opening one.
    # @return [Boolean, nil] whether the server can be talked to
    def active? # :nodoc:
      super
    rescue ActiveRecord::ConnectionNotEstablished
      false
    end

    # There is no socket of ours to be taken from the parent.
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
          @type_map = nil # others go on with the one that they have
          super
          types.map = @type_map
        end
      end
    end

    private

    # Rails' executor begins one for each request; without one such calls run where they are.
    def async_session?
      ActiveRecord::Base.asynchronous_queries_session
      true
    rescue ActiveRecord::ActiveRecordError
      false
    end

    def check_isolation
      level = ActiveSupport::IsolatedExecutionState.isolation_level
      return if level == :fiber
      pool.remove(self) # which has it in neither of its lists by now
      raise ConfigurationError, "config.active_support.isolation_level is :#{level}, and this is a loop, whose fibers are all on one " \
        "thread: they would use each other's transactions. Set it to :fiber"
    end

    def connect
      kind = self.class
      @database ||= Postgres::Databases.for(@connection_parameters, @config, Postgres::Databases::ACTIVE_RECORD, by: kind.method(:new_client).owner) { kind.new_client(@connection_parameters) }.tap { |database| database.reaper = REAPER }
      connection = @database.connection(member: true)
      connection.verify
      connection.server_version # here it may wait: later Active Record asks with a lock, which a child that is forked meanwhile would never get
      @raw_connection = connection
    ensure
      connection&.close unless connection.equal?(@raw_connection)
    end

    # The first adapter of a database asks for its types, and all that are made meanwhile wait for that. Where its connection goes
    # meanwhile it connects anew, in the midst of that.
    def configure_connection
      first = false
      unless types.search_paths.any? || @first
        FIRST.call([@database, *own_kind]) do
          first = @first = true
          configure { super() }
        ensure
          @first = false
        end
      end
      configure { super() } unless first
      whole = true
    ensure
      disconnect! unless whole # what Active Record does itself after exceptions; Fiber#kill and Thread#kill are none
    end

    # As Rails' pool does it where it has no more connections: ours has no bound.
    REAPER = lambda do
      ActiveRecord::Base.connection_handler.connection_pool_list(:all).each { |pool| pool.reap if ActiveRecordAdapters.known?(pool.db_config.adapter) }
    end

    FIRST = Flight.new
    private_constant :FIRST, :REAPER

    # A search_path of the configuration is set by each, being part of the session defaults; the server's own is asked for by the first.
    def configure
      @configuring = true
      own = @config.values_at(:schema_search_path, :schema_order, :variables)
      @schema_search_path = (types.search_paths[own] unless own[0] || own[1])
      @raw_connection.configure { yield }
      @own_search_path = types.search_paths[own] ||= schema_search_path
    ensure
      @configuring = false
    end

    # The next one begins as all do.
    def session_ended
      @schema_search_path = @own_search_path
    end

    def types = @database.types[own_kind] ||= Types.new(search_paths: {})

    # Another class of adapters knows other types.
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

    # `sql.active_record` tells how long a statement waited for a real connection: `payload[:queue_time]`, in seconds; and with
    # which others it was sent, if it was in a pipeline: `payload[:pipeline]`, the same number for all of one.
    if ActiveRecord::ConnectionAdapters::PostgreSQLAdapter.private_method_defined?(:perform_query)
      def perform_query(raw_connection, sql, binds, type_casted_binds, prepare:, notification_payload:, batch: false)
        super(raw_connection, sql, binds, type_casted_binds, prepare:, notification_payload:, batch:) # standard:disable Style/SuperArguments -- a bare super makes a Hash
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

    # Whoever has waited in vain does not wait again.
    def retryable_connection_error?(exception) = !exception.is_a?(ActiveRecord::ConnectionTimeoutError) && super
  end
end
