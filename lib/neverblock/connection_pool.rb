# frozen_string_literal: true

module NeverBlock
  # Shares connections of any client - Redis, memcached, HTTP, a socket - among fibers and threads, inside of loops and
  # outside. The interface is that of the gem connection_pool.
  #
  #   pool = NeverBlock::ConnectionPool.new(size: 20, timeout: 5) { Redis.new }
  #   pool.with { |redis| redis.get("key") }
  #
  # Waiters are served in order. A connection whose block was left by an exception, a throw or a kill is closed, because
  # it may be in the middle of a response: docs/connection-pool.md. The parts:
  #
  #   places.rb      which places are idle, held, waited for; place.rb: one of them
  #   lending.rb     lends a place's connection, and decides whether the next user gets it
  #   lifecycle.rb   opens, checks and closes connections
  #   breaker.rb     the circuit breaker
  #   refusals.rb    the errors of check-outs; holders.rb: describes the holders
  #   registry.rb    all pools, for the statistics
  #   wrapper.rb     stands for a single connection
  #   errors.rb
  class ConnectionPool
    require_relative "connection_pool/errors"
    require_relative "connection_pool/place"
    require_relative "connection_pool/places"
    require_relative "connection_pool/lifecycle"
    require_relative "connection_pool/breaker"
    require_relative "connection_pool/holders"
    require_relative "connection_pool/refusals"
    require_relative "connection_pool/registry"
    require_relative "connection_pool/lending"
    require_relative "connection_pool/wrapper"

    SIZE = Ractor.make_shareable(ValueType.count)
    NEVER = Ractor.make_shareable(->(_error, _connection) { false })
    private_constant :SIZE, :NEVER

    # @return [Wrapper] that stands for a single connection of a new pool
    def self.wrap(**, &) = Wrapper.new(**, &)

    # Gives each pool of this process new connections, as a forked child does by itself.
    # @return [void]
    def self.after_fork = Registry.open.each(&:after_fork)

    # @param size [Integer, String] maximum number of connections
    # @param timeout [Numeric, String, nil] seconds that a check-out waits; nil: without end
    # @param auto_reload_after_fork [Boolean] whether a forked child opens connections of its own
    # @param name [String, nil] in messages and statistics; nil: the place of the block
    # @param max_waiting [Integer] maximum number of waiters
    # @param idle_timeout [Numeric, nil] seconds without use after which a connection is closed
    # @param max_age [Numeric, nil] seconds after which a connection is closed
    # @param check [#call, nil] gets a connection that was idle; a false value or an error replaces it
    # @param check_after [Numeric] seconds without use from which on it is checked
    # @param close [#call, nil] ends a connection; nil: its `close`, `disconnect!`, `disconnect`, `finish` or `quit`
    # @param keep_after [Array<Module>, #call] errors that leave a connection fit for the next user: classes, or a
    #   callable that gets the error and the connection. A timeout's error never does
    # @param breaker [Hash, nil] `failures:` in sequence after which check-outs are refused for `cooldown:` seconds, and
    #   `on:`, the exceptions that count
    # @yieldreturn [Object] a new connection; called when one is needed
    # @raise [ArgumentError]
    def initialize(size: 5, timeout: 5, auto_reload_after_fork: true, name: nil, max_waiting: 10_000, idle_timeout: nil,
      max_age: nil, check: nil, check_after: 1, close: nil, keep_after: [], breaker: nil, &connect)
      raise ArgumentError, "ConnectionPool.new needs a block that returns a connection" unless connect
      @size = SIZE.check(Integer(size, exception: false) || size) { "size:" }
      @timeout = Options.seconds("timeout", (Float(timeout, exception: false) if String === timeout) || timeout)
      [["idle_timeout", idle_timeout], ["max_age", max_age], ["check_after", check_after]].each do |option, value|
        Options.seconds(option, value)
      end
      @places = Places.new(@size, SIZE.check(max_waiting) { "max_waiting:" })
      @lending = Lending.new(@places, Lifecycle.new(connect:, close:, check:, check_after:, idle_timeout:, max_age:),
        keep_after: keep_after.respond_to?(:call) ? keep_after : any_of(Array(keep_after)),
        breaker: (Breaker.new(**breaker) if breaker))
      @reloads = auto_reload_after_fork
      @lending.name = @name = Registry.join(self, (name || place_of(connect)).to_s)
      Forks.watch(self) if @reloads
    end

    # @return [Integer] maximum number of connections
    attr_reader :size
    # @return [String]
    attr_reader :name

    # Lends a connection to the block. A call inside of the block, in the same fiber, gets the same connection. Child
    # fibers and threads get others.
    # @param timeout [Numeric, nil] seconds that it waits
    # @yieldparam connection [Object]
    # @return [Object] the block's value
    # @raise [TimeoutError] if none became free in time
    # @raise [OverloadError] if `max_waiting` wait already
    # @raise [CircuitOpenError]
    # @raise [PoolShuttingDownError]
    def with(timeout: @timeout, &)
      depth = @places.current&.depth || 0
      begin
        connection = checkout(timeout:)
        place = @places.current
        entered = true
        Unwinding.watch(place, connection, &)
      ensure
        entered ? @lending.leave(place) : @lending.withdraw(depth)
      end
    end
    alias_method :then, :with

    # Takes a connection for the calling fiber, until as many {#checkin} as check-outs. `with` is safer: it sees how its
    # block ended.
    # @param timeout [Numeric, nil] seconds that it waits
    # @return [Object] the connection
    # @raise as {#with}
    def checkout(timeout: @timeout)
      place = @places.current
      return @lending.acquire { @lending.wait(timeout) }.connection unless place
      raise Error, "the block that connects, of the pool #{@name}, uses the pool itself" unless place.opened_at
      place.depth += 1
      place.connection
    end

    # @return [Object, nil] a connection as of {#checkout}; nil if none is free
    def try_checkout
      return checkout if @places.current
      @lending.acquire { @lending.check }&.connection
    end

    # Returns the calling fiber's connection. While an exception is being handled ($!), the connection is closed unless
    # `keep_after` names that exception.
    # @param force [Boolean] whether also to return one that was checked out several times, or none
    # @return [nil]
    # @raise [Error] if there is none
    def checkin(force: false)
      place = force ? @places.current : held_place
      @lending.check_in(place, $!, force) if place
      nil
    end

    # @return [Boolean] whether the calling fiber has a connection
    def holds? = !@places.current.nil?

    # Gives the calling fiber a new connection in place of its own, which is closed.
    # @return [Object] the new one
    # @raise [Error] if there is none
    def replace_current_connection
      @lending.replace(held_place).connection
    end

    # Has the calling fiber's connection closed at its check-in.
    # @yieldparam connection [Object] to be closed by the block, if there is one
    # @return [void]
    # @raise [Error] if there is none
    def discard_current_connection(&close)
      place = held_place
      place.closer = close if close
      place.spoilt = true
      nil
    end

    # Ends the pool: waiters and later check-outs get an error. Connections in use are closed at their check-in.
    # @yieldparam connection [Object] each connection, to be closed by the block
    # @return [void]
    # @raise [ArgumentError] without a block: {#close} needs none
    def shutdown(&close)
      raise ArgumentError, "shutdown needs a block that closes a connection; `close` needs none" unless close
      @lending.renew(close, shut: true)
    end

    # Ends the pool as {#shutdown} does.
    # @return [void]
    def close = @lending.renew(nil, shut: true)

    # Replaces all connections: the idle ones now, those in use at their check-in.
    # @yieldparam connection [Object] each connection, to be closed by the block, if there is one
    # @return [void]
    def reload(&close) = @lending.renew(close, shut: false)

    # Closes connections that were idle for long.
    # @param idle_seconds [Numeric]
    # @yieldparam connection [Object] each connection, to be closed by the block, if there is one
    # @return [void]
    # @raise [PoolShuttingDownError]
    def reap(idle_seconds: 60, &close)
      @lending.check
      @lending.reap(Options.seconds("idle_seconds", idle_seconds), close)
    end

    # @return [Integer] check-outs that would not have to wait
    def available = @size - @places.held

    # @return [Integer] connections that are open and not in use
    def idle = @places.idle

    # @return [Boolean] whether {#shutdown} or {#close} was called
    def shut? = @places.shut?

    # @return [Array<Object>] all open connections, in use or not
    def connections = @places.connections

    # @return [Array<Hash{Symbol=>Object}>] what holds a connection, the oldest first: `name` of the task or thread,
    #   `age` in seconds, `at` (the line of the program), `ended` (whether its fiber has ended without a check-in)
    def holders = Holders.new(@places.holdings).to_a

    # @return [Hash{Symbol=>Object}] counts; `held_oldest` and `wait_seconds` are seconds
    def stats
      now = Clock.now
      oldest = @places.holdings.map { |place| (now - place.since).round(3) }.max
      {size: @size, idle:, held: @places.held, waiting: @places.waiting, held_oldest: oldest, **@lending.stats}
    end

    # @return [String]
    def inspect
      "#<NeverBlock::ConnectionPool #{@name}: #{@places.held} of #{@size} held, #{idle} idle, #{@places.waiting} wait>"
    end

    # @api private
    # @return [void]
    def disown = @lending.disown

    # @api private
    # @return [void]
    def after_fork = (disown if @reloads)

    private

    def held_place = @places.current || raise(Error, "no connections are checked out")

    def any_of(classes)
      return NEVER if classes.empty?
      ->(error, _connection) { classes.any? { |one| one === error } }
    end

    def place_of(block)
      file, line = block.source_location
      file ? "#{File.basename(file)}:#{line}" : "pool"
    end
  end
end
