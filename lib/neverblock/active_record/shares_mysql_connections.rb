# frozen_string_literal: true

require_relative "adapters"
require_relative "fiber_isolation"
require_relative "reads_schema_aside"
require_relative "restores_transactions"
require_relative "../mysql"
require_relative "../mysql/databases"

module NeverBlock
  # What {SharesTrilogyConnections} and {SharesMysql2Connections} have in common. Each fiber has its own adapter, with
  # Active Record's state. Its raw connection is a {MySQL::VirtualConnection}, or has its methods.
  # @api private
  module SharesMySQLConnections
    include ReadsSchemaAside
    include RestoresTransactions

    # @param part [Module] that is being included
    # @param adapter [Class] in which
    # @param stock [Class] Rails' own adapter
    # @return [void]
    # @raise [ConfigurationError] if the one is not a subclass of the other
    def self.check(part, adapter, stock)
      return if adapter < stock
      raise ConfigurationError, "#{part} was included in #{adapter}, which is not a subclass of #{stock}. Include it " \
        "in one that is"
    end

    # Called by the pool when it hands the adapter out; if it raises, the pool drops the adapter.
    # @raise [ConfigurationError] if fibers would share adapters
    def clean! # :nodoc:
      FiberIsolation.check if Scheduler.current
      super
    end

    # Called by the pool when it gets the adapter back. Was it taken away during a transaction, later statements of that
    # must fail: each would be committed by itself.
    def expire(...) # :nodoc:
      super
      stolen, @stolen = @stolen, false
      return unless @raw_connection
      broken_off = stolen && @raw_connection.in_transaction?
      @raw_connection.check_in
      @raw_connection.close if broken_off
    end

    # Called by the pool when it takes the adapter away from a fiber or thread that has not returned it.
    def steal! # :nodoc:
      super
      @stolen = true
    end

    # Runs the block's statements on one real connection that they don't share, and that is closed afterwards.
    #
    #   Order.with_connection { |connection| connection.without_multiplexing { Order.from_partner.to_a } }
    #
    # @return [Object] the block's value
    def without_multiplexing(&)
      verify! unless @raw_connection
      @raw_connection.without_multiplexing(&)
    end

    # @return [String, nil] why it keeps a real connection
    def held_for = @raw_connection&.pinned_for # :nodoc:

    # @return [MySQL, nil] the one whose connections it uses; nil: it has not connected yet
    def multiplexed = @database # :nodoc:

    # In a transaction Active Record itself refuses it.
    # @return [Boolean] whether `load_async` runs beside its caller; not with session state, which the other adapter
    #   would not have
    def async_enabled? # :nodoc:
      super && (transaction_open? || !@raw_connection&.changed?)
    end

    # @return [Boolean] whether the server is reachable; connects if no connection is open
    def active? # :nodoc:
      super
    rescue ActiveRecord::ActiveRecordError
      false
    end

    private

    def connect
      @raw_connection = virtual_connection
    end

    def virtual_connection = database.connection

    # @return [Object] what {MySQL} takes for a Trilogy
    def real_client(kind, config) = kind.new_client(config)

    # The driver changes the options that it gets.
    def database
      @database ||= begin
        kind, config = self.class, {connect_timeout: MySQL::CONNECT_TIMEOUT, **@config}
        found = MySQL::Databases.for(config.dup, by: kind) { real_client(kind, config.dup) }
        found.tap { found.reaper = REAPER }
      end
    end

    # Its SET statement becomes the session defaults of the real connections. Then one of them is opened, so that a
    # wrong setting is reported here.
    def configure_connection
      value = @raw_connection.configure { super }
      @raw_connection.ready
      whole = true
      value
    ensure
      disconnect! unless whole # Active Record does it after exceptions, but not after Fiber#kill and Thread#kill
    end

    def get_full_version = database.version

    # Rails' pool reaps only when it runs out of adapters. Ours never runs out, so we reap here.
    REAPER = lambda do
      ActiveRecord::Base.connection_handler.connection_pool_list(:all).each do |pool|
        pool.reap if ActiveRecordAdapters.known?(pool.db_config.adapter)
      end
    end
    private_constant :REAPER

    def translate_exception(exception, message:, sql:, binds:)
      case exception
      when MySQL::PoolTimeout then ActiveRecord::ConnectionTimeoutError.new(exception.message, connection_pool: @pool)
      when MySQL::OutcomeUnknown, MySQL::SessionLost
        ActiveRecord::ConnectionFailed.new(message, sql:, binds:, connection_pool: @pool)
      else super
      end
    end

    # A statement that has timed out waiting does not wait again.
    def retryable_connection_error?(exception) = !exception.is_a?(ActiveRecord::ConnectionTimeoutError) && super
  end
end
