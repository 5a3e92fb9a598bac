# frozen_string_literal: true

require_relative "runtime"
require_relative "fibered_connection_pool/driver"

module NeverBlock
  # The connection pool of 2008, with its interface, above {ConnectionPool}.
  #
  #   require "neverblock/fibered_connection_pool"
  #
  #   pool = NB::FiberedConnectionPool.new({host: "localhost", dbname: "shop"}, 12)
  #   NeverBlock.run do
  #     fibers = NB::FiberPool.new(100)
  #     100.times { fibers.spawn { pool.exec("select pg_sleep(0.1)", true) } }
  #   end
  #
  # With a block it pools connections of any client. docs/migrating-from-2008.md says what differs from 2008;
  # `fibered_connection_pool/driver.rb` is for fibers that a program's own event loop drives. New programs are better
  # off with {Postgres}, which shares connections, or with {ConnectionPool}.
  class FiberedConnectionPool
    # Connections of a pool without a size.
    SIZE = 8
    private_constant :SIZE

    # @param options [Hash, String, Array, nil] as PG.connect takes them; with a block, `size:` and `eager:`
    # @param count [Integer, nil] maximum number of connections; one more is for statements in blocking mode
    # @param size [Integer, nil] the same
    # @param eager [Boolean] whether to open all connections now
    # @param timeout [Numeric, nil] seconds that a fiber waits for a connection; nil: without end, as in 2008
    # @param connection [Hash] `options` without braces
    # @yieldreturn [Object] a new connection; without a block they are connections to PostgreSQL
    # @raise [ArgumentError]
    def initialize(options = nil, count = nil, size: nil, eager: false, timeout: nil, **connection, &connect)
      given = (connect && options.is_a?(Hash)) ? options : {}
      options = connection if options.nil? && !connection.empty?
      size = count || size || given[:size] || SIZE
      connect ||= connecting(options)
      @pool = ConnectionPool.new(size:, timeout:, keep_after: method(:calm?), name: "fibered", &connect)
      @blocking = ConnectionPool.new(size: 1, timeout:, keep_after: method(:works?), name: "blocking", &connect)
      @driver = Driver.new(@pool)
      open_all if eager || given[:eager]
    end

    # @return [Integer] maximum number of connections, without the one for blocking mode
    def size = @pool.size

    # Runs a statement. Statements of one fiber run in order, on one connection inside of {#hold}.
    # @param sql [String]
    # @param async [Boolean] whether only the calling fiber waits. Otherwise the whole loop does, as stock Ruby would,
    #   on a connection that is kept for that; a fiber inside of {#hold} uses its own
    # @return [PG::Result]
    # @raise [PG::Error]
    def exec(sql, async = false)
      unless async || @pool.holds?
        return NeverBlock.neverblock(false) { @blocking.with { |connection| connection.exec(sql) } }
      end
      hold { |connection| @driver.drives? ? @driver.exec(connection, sql) : connection.exec(sql) }
    end

    # Lends a connection to the block. Waits in line while all are held.
    # @param transactional [Boolean] whether the fiber keeps it after the block, until {#release}
    # @yieldparam connection [Object]
    # @return [Object] the block's value
    def hold(transactional = false, &)
      return @driver.hold(transactional, &) if @driver.drives? && !@pool.holds?
      return @pool.with(&) if @pool.holds? || !transactional
      @pool.checkout
      @pool.with(&)
    end

    # Returns the connection that the calling fiber has kept since `hold(true)`.
    # @param fiber [Fiber] the calling one
    # @param _connection [Object] ignored; the fiber's own is returned
    # @return [nil]
    # @raise [ArgumentError] for another fiber
    def release(fiber = Fiber.current, _connection = nil)
      unless fiber.equal?(Fiber.current)
        raise ArgumentError, "release: #{fiber.inspect} is not the calling fiber; let that one release its connection"
      end
      @pool.checkin(force: true)
      @driver.serve_next
    end

    # @yieldparam connection [Object] each open connection, in use or not
    # @return [Array<Object>] them
    def all_connections(&)
      @pool.connections.tap { |connections| connections.each(&) if block_given? }
    end

    # Gives the calling fiber a new connection in place of its own, which is closed: for one that the server has left.
    # @return [Object] the new one
    # @raise [ConnectionPool::Error] if the fiber holds none
    def replace_acquired_connection = @pool.replace_current_connection

    # @return [Array<IO>] the connections' sockets, for IO.select in a program's own event loop
    def sockets = all_connections.filter_map { |connection| connection.socket_io if connection.respond_to?(:socket_io) }

    # Goes on with the fiber whose response has come on a socket. Inside NeverBlock.run there is nothing to do: the loop
    # does it.
    # @param socket [IO] one of {#sockets} that is readable
    # @return [void]
    def process_command(socket) = @driver.process_command(socket)

    # Closes all connections.
    # @return [void]
    def close = [@pool, @blocking].each(&:close)

    # @return [String]
    def inspect = "#<NeverBlock::FiberedConnectionPool #{@pool.inspect}>"

    private

    def connecting(options)
      unless options.is_a?(Hash) || options.is_a?(String) || options.is_a?(Array)
        raise ArgumentError, "FiberedConnectionPool.new: #{options.inspect} is not a Hash, a String or an Array as " \
          "PG.connect takes them. Pass such options, or a block that returns a connection"
      end
      require "pg"
      -> { PG.connect(*(options.is_a?(Array) ? options : [options])) }
    end

    # A fiber holds one connection, so all are taken by a fiber each.
    def open_all
      fibers = Array.new(size) { Fiber.new { @pool.with { Fiber.yield } } }
      2.times { fibers.each(&:resume) }
    end

    # After an error of a statement: nothing is under way, and no transaction is open.
    def calm?(_error, connection) = postgres?(connection) && connection.transaction_status == PG::PQTRANS_IDLE

    # The same, in blocking mode, where a transaction may go on.
    def works?(_error, connection) = postgres?(connection) && connection.transaction_status != PG::PQTRANS_ACTIVE

    def postgres?(connection)
      defined?(PG::Connection) && PG::Connection === connection && connection.status == PG::CONNECTION_OK
    end
  end
end
