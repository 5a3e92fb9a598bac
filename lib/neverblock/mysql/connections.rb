# frozen_string_literal: true

require_relative "catalogue"
require_relative "connection"
require_relative "holder"
require_relative "killer"
require_relative "pool"

module NeverBlock
  class MySQL
    # The real connections with the same session defaults, and what is known of their server.
    #
    #   connections = Connections.new(-> { Trilogy.new(host: "db") }, ["SET NAMES utf8mb4"], connections: 12,
    #     timeout: 5, max_waiting: 100)
    #   connections.classify("select 1").kind          # => :read
    #   connection = connections.acquire("a transaction")
    #   connections.check_in(connection)
    # @api private
    class Connections
      # Seconds for a rollback before a connection goes back.
      CLEANING = 5
      # Definitions that change what {Catalogue} finds.
      RISKY = /\b(?:view|trigger|rename|function)\b/i
      private_constant :RISKY, :CLEANING

      # @param connect [#call] returns a new Trilogy
      # @param session_defaults [Array<String>]
      # @param options [Hash{Symbol=>Object}] of {Options}
      def initialize(connect, session_defaults, **options)
        @connect = connect
        @session_defaults = session_defaults
        @shareable = options.fetch(:shareable_functions, [])
        @pool = Pool.new(**options.slice(:connections, :timeout, :max_waiting)) { open }
        @killer = Killer.new(self)
        @preparing = Flight.new(share: StandardError)
        @classifier = @encoding = nil
        @definitions = @unclean = 0
      end

      # @param reaper [#call]
      def reaper=(reaper)
        @pool.reaper = reaper
      end

      # @param purpose [String]
      # @param holder [#held]
      # @return [Connection]
      def acquire(purpose, holder) = @pool.acquire(purpose, holder)

      # @param holder [#held] that was interrupted while it was given a connection
      # @return [void]
      def abandon(holder) = @pool.abandon(holder)

      # @param connection [Connection] that its user keeps, and does nothing with
      # @param owner [Object] the user
      # @param saved [SavedInsertId, nil] for which another asks before it uses the connection
      # @return [void]
      def park(connection, owner, saved) = @pool.park(connection, owner, saved)

      # @param connection [Connection] that was parked
      # @param owner [Object] the user
      # @return [Boolean] whether it was still there
      def unpark(connection, owner) = @pool.unpark(connection, owner)

      # @param sql [String]
      # @return [Classification]
      def classify(sql) = (@classifier || prepare).call(sql)

      # Connects, unless that was done.
      # @return [true]
      # @raise [Trilogy::Error] if the server can't be reached
      def ready
        prepare unless @classifier && @pool.any?
        true
      end

      # @return [Encoding, nil] of statements; nil: the driver converts them
      def encoding = ready && @encoding

      # @param string [String]
      # @return [String] for a literal in SQL
      def escape(string)
        ready
        Escape.call(string, plain_backslashes: @sql_mode.include?("NO_BACKSLASH_ESCAPES"), encoding: @encoding)
      end

      # @param connection [Connection] with which its user has finished
      # @param holder [#held]
      # @return [void]
      def check_in(connection, holder)
        kept = connection.untouched? || clean(connection)
      ensure
        kept ? @pool.release(connection, holder) : drop(connection, holder)
      end

      # @param connection [Connection]
      # @param holder [#held]
      # @return [void]
      def drop(connection, holder)
        @unclean += 1 unless connection.broken?
        @pool.drop(connection, holder)
      end

      # The server has become read-only: another one is the primary now. All connections are replaced.
      # @return [void]
      def outdate = @pool.outdate

      # Ends a statement on the server whose fiber has given it up.
      # @param connection [Connection] its connection, which the driver has closed
      # @param later [Boolean] whether the fiber can't wait for the end
      # @return [void]
      def kill(connection, later: false) = later ? @killer.later(connection) : @killer.call(connection)

      # A statement has defined something.
      # @param sql [String]
      # @return [void]
      def defined(sql)
        return unless RISKY.match?(sql.b)
        @definitions += 1
        @classifier = nil
      end

      # Yields a connection without waiting for others: one of the pool's, or else one beside it.
      # @yieldparam connection [Connection]
      # @return [Object] the block's value
      def beside(purpose)
        holder = Holder.new
        pooled = @pool.acquire_at_once(purpose, holder)
        connection = pooled || open
        value = yield connection
        @pool.release(pooled, holder) if pooled&.untouched?
        value
      ensure
        holder.held ? @pool.abandon(holder) : (connection unless pooled)&.close
      end

      # @return [Hash{Symbol=>Integer}]
      def stats = {**@pool.stats, unclean: @unclean, killed: @killer.killed, unconfirmed: @killer.unconfirmed}

      # @return [void]
      def close = @pool.close

      private

      # Fibers that come meanwhile wait for the first, and get its error too.
      def prepare
        read = @definitions
        @preparing.call(read) do
          next @classifier if @classifier && @pool.any?
          classifier = beside("the catalogue") { |connection| classifier(connection) }
          @classifier = classifier if read == @definitions
          classifier
        end
      end

      def classifier(connection)
        @sql_mode = connection.sql_mode
        @encoding = connection.client.encoding if connection.client.respond_to?(:encoding)
        risky = Catalogue.risky(connection, sql_mode: @sql_mode, shareable_functions: @shareable)
        Classifier.new(sql_mode: @sql_mode, charset: connection.charset, risky:, shareable_functions: @shareable)
      end

      # The fiber does not go on before its transaction is rolled back, even if it is being cancelled.
      def clean(connection)
        NeverBlock.shield { NeverBlock.timeout(CLEANING) { connection.clean } }
      rescue TimeoutError
        false
      end

      def open
        client = @connect.call
        connection = Connection.of(client, session_defaults: @session_defaults)
      ensure
        client&.close unless connection
      end
    end
  end
end
