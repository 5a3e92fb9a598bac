# frozen_string_literal: true

# MySQL and MariaDB; docs/mysql.md says what shares connections:
#
#     mysql.rb                the public class
#     virtual_connection.rb   what adapters hold; session.rb: its state; escape.rb: literals without a connection
#     databases.rb            one pool for all adapters of a configuration
#     options.rb, errors.rb
#
#     What does a statement mean?
#     classifier.rb           reads its text; classification.rb: the outcome; lexer.rb: tokens
#     statement_scanner.rb    queries and writes; functions.rb, keywords.rb: the words that it knows
#     catalogue.rb            views and triggers, which the text does not show
#
#     How does it get to the server?
#     connections.rb          all connections with the same session defaults
#     pool.rb                 which connection is free, and which statement is next
#     connection.rb           one of them: is its session as new? holder.rb
#     residue.rb              LAST_INSERT_ID() and the like; saved_insert_id.rb: if another takes the connection
#     killer.rb               ends what was given up
#
#     The other driver, and Sequel:
#     mysql2.rb               loads the parts for mysql2: mysql2_client.rb, which waits for it; mysql2_connection.rb;
#                             mysql2_virtual_connection.rb
#     sequel_pools.rb, sequel_database.rb

require "trilogy"
require_relative "runtime"

module NeverBlock
  # MySQL and MariaDB for thousands of fibers over a few connections, by the gem trilogy. A read takes a connection for
  # itself alone; a transaction, session state and a write keep theirs until the end of the block.
  #
  #   database = NeverBlock::MySQL.new({host: "db", username: "shop", database: "shop"}, connections: 12)
  #   NeverBlock.run do
  #     1_000.times.map { |id| NB.spawn { database.query("select * from products where id = #{id}") } }
  #   end
  #   database.transaction do |connection|
  #     connection.query("update accounts set credit = credit - 1")
  #   end
  class MySQL
    require_relative "mysql/errors"
    require_relative "mysql/options"
    require_relative "mysql/escape"
    require_relative "mysql/residue"
    require_relative "mysql/connections"
    require_relative "mysql/virtual_connection"

    # Seconds for connecting. The driver has a default for TCP's part of it alone.
    CONNECT_TIMEOUT = 5

    # docs/mysql.md explains each option.
    # @param target [Hash, #call] options of Trilogy.new, or a callable that returns a new Trilogy
    # @param options [Hash{Symbol=>Object}]
    # @option options [Integer] :connections (12) maximum number of connections of this process
    # @option options [Numeric, nil] :timeout (5) seconds to wait for a connection; nil: no limit
    # @option options [Integer] :max_waiting (20_000) maximum number of statements that wait for a connection
    # @option options [Array<String>] :shareable_functions ([]) own functions that neither leave nor read session state
    # @raise [ConfigurationError] for an unknown option or an invalid value
    def initialize(target, **options)
      callable = target.respond_to?(:call)
      @connection_options = callable ? {}.freeze : {connect_timeout: CONNECT_TIMEOUT, **target}.freeze
      @connect = callable ? target : -> { Trilogy.new(@connection_options.dup) }
      @options = Options.complete(options)
      @all = {}
      @closed = false
      @lock = Thread::Mutex.new
    end

    # @return [Hash] of Trilogy.new
    attr_reader :connection_options

    # @param sql [String] one statement
    # @return [Trilogy::Result]
    # @raise [Trilogy::Error] the server's error; {OutcomeUnknown} if the connection was lost meanwhile
    # @raise [PoolTimeout] if no connection was free in time
    def query(sql)
      session = Session.new(self)
      session.query(sql)
    ensure
      Scheduler.uninterrupted { session.check_in } if session&.kept?
    end

    # Yields a connection, for several statements and for session state, which ends with the block.
    # @yieldparam connection [VirtualConnection] a Trilogy
    # @return [Object] the block's value
    def connect
      connection = connection()
      yield connection
    ensure
      Scheduler.uninterrupted { connection.close } if connection
    end

    # Runs a transaction: it is committed at the block's end, and rolled back if the block is left in any other way.
    # @yieldparam connection [VirtualConnection] a Trilogy
    # @return [Object] the block's value
    # @raise [OutcomeUnknown] if the connection was lost during COMMIT
    def transaction
      connect do |connection|
        connection.query("BEGIN")
        value = yield connection
        connection.query("COMMIT")
        value
      end
    end

    # @api private
    # @return [String] of the server, asked once
    def version
      @version ||= begin
        client = @connect.call
        client.server_version
      ensure
        client&.close
      end
    end

    # @api private
    # @return [VirtualConnection]
    def connection = VirtualConnection.new(self)

    # @api private
    # @param session_defaults [Array<String>] statements that each of them gets first
    # @return [Connections]
    def connections(session_defaults)
      raise ClosedError, "this NeverBlock::MySQL was closed" if @closed
      @all[session_defaults] || @lock.synchronize do
        @all[session_defaults] ||= Connections.new(@connect, session_defaults, **@options).tap do |connections|
          connections.reaper = @reaper
        end
      end
    end

    # @api private
    # @param reaper [#call] called while a statement waits: checks in the connections of fibers that have ended
    attr_writer :reaper

    # Figures of its connections.
    # @return [Hash{Symbol=>Integer}] :size, :connections, :idle, :parked, :busy, :waiting, :opened, :closed, :unclean
    #   (closed with session state), :killed (statements ended on the server), :unconfirmed (of which that is not known)
    def stats
      all = @all.values.map(&:stats)
      return {size: @options[:connections]} if all.empty?
      all.reduce { |one, other| one.merge(other) { |_name, a, b| a + b } }
    end

    # Closes the connections; those in use, when their use ends.
    # @return [void]
    def close
      @closed = true
      @all.each_value(&:close)
    end

    # @return [String]
    def inspect = "#<NeverBlock::MySQL #{stats.map { |name, value| "#{name}: #{value}" }.join(", ")}>"
  end
end
