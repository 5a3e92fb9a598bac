# frozen_string_literal: true

require_relative "adapters"
require_relative "release"
NeverBlock::ActiveRecordRelease.check(adapter: "neverblock_mysql", instead: "trilogy")
require "active_record/connection_adapters/trilogy_adapter"
require_relative "../mysql"
require_relative "../mysql/databases"

module NeverBlock
  # Makes statements of Active Record's adapter for trilogy share a few real connections (`connections:`) with those of
  # other requests. `adapter: neverblock_mysql` is Rails' own adapter with this module.
  #
  # Each fiber has its own adapter, with Active Record's state. Its raw connection is a {MySQL::VirtualConnection}.
  module SharesTrilogyConnections
    # @param adapter [Class]
    # @raise [ConfigurationError] if it is not a subclass of Rails' adapter for trilogy
    def self.included(adapter)
      unless adapter < ActiveRecord::ConnectionAdapters::TrilogyAdapter
        raise ConfigurationError, "#{self} was included in #{adapter}, which is not a subclass of " \
          "ActiveRecord::ConnectionAdapters::TrilogyAdapter. Include it in one that is"
      end
      super
    end

    # Called by the pool when it hands the adapter out.
    # @raise [ConfigurationError] if fibers would share adapters
    def lease # :nodoc:
      refuse_thread_isolation if Scheduler.current
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

    # If a reconnect fails, Active Record forgets its transactions, and the next attempt would go on without them.
    def reset_transaction(restore: false) # :nodoc:
      before = @transaction_manager
      value = super
      whole = true
      value
    ensure
      @transaction_manager = before if restore && !whole
    end

    # @return [Boolean] whether `load_async` runs beside its caller; not in a transaction or with session state, which
    #   the other adapter would not have
    def async_enabled? # :nodoc:
      super && !transaction_open? && !@raw_connection&.changed?
    end

    # @return [Boolean] whether the server is reachable; connects if no connection is open
    def active? # :nodoc:
      super
    rescue ActiveRecord::ActiveRecordError
      false
    end

    private

    def refuse_thread_isolation
      level = ActiveSupport::IsolatedExecutionState.isolation_level
      return if level == :fiber
      pool.remove(self) # it is in neither of the pool's lists now
      raise ConfigurationError, "config.active_support.isolation_level is :#{level}; the fibers of a loop are on one " \
        "thread, and would use each other's transactions. Set it to :fiber"
    end

    def connect
      @raw_connection = database.connection
    end

    # The driver changes the options that it gets.
    def database
      @database ||= begin
        kind, config = self.class, {connect_timeout: MySQL::CONNECT_TIMEOUT, **@config}
        MySQL::Databases.for(config.dup, by: kind) { kind.new_client(config.dup) }.tap { |found| found.reaper = REAPER }
      end
    end

    # Its SET statement becomes the session defaults of the real connections. Then one of them is opened, so that a
    # wrong setting is reported here.
    def configure_connection
      @raw_connection.configure { super }
      @raw_connection.ping
      whole = true
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
