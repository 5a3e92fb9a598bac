# frozen_string_literal: true

module NeverBlock
  class ConnectionPool
    # Opens, checks and closes the connections of a pool, whatever their client.
    #
    #   lifecycle = Lifecycle.new(connect: -> { Redis.new }, check: ->(redis) { redis.ping }, idle_timeout: 60)
    #   lifecycle.open(place)
    #   lifecycle.usable?(place)   # => false after a minute without use, or without a response to the check
    # @api private
    class Lifecycle
      include MonotonicClock

      # What clients call their end, the usual name first.
      CLOSING = %i[close disconnect! disconnect finish quit].freeze
      # The same for a connection that may be in the middle of a response: Trilogy's close would wait for the server.
      ABANDONING = [:discard!, *CLOSING].freeze
      # Seconds that an end may take: a client may wait for a server that is silent.
      CLOSE_LIMIT = 1
      # Seconds that a check may take.
      CHECK_LIMIT = 1
      private_constant :CLOSING, :ABANDONING, :CLOSE_LIMIT, :CHECK_LIMIT

      # @param connect [#call] returns a new connection
      # @param close [#call, nil] ends a connection; nil: by the method that the client has for it
      # @param check [#call, nil] whether a connection works; an error counts as false
      # @param check_after [Numeric, nil] seconds without use after which a connection is checked
      # @param idle_timeout [Numeric, nil] seconds without use after which a connection is closed
      # @param max_age [Numeric, nil] seconds after which a connection is closed
      def initialize(connect:, close: nil, check: nil, check_after: 1, idle_timeout: nil, max_age: nil)
        @connect = connect
        @close = close
        @check = check
        @check_after = check_after || 0
        @idle_timeout = idle_timeout
        @max_age = max_age
        @limited = check || idle_timeout || max_age
      end

      # @return [Numeric, nil] seconds
      attr_reader :idle_timeout

      # @param place [Place] one without a connection
      # @return [void]
      # @raise [Exception] what the user's block raises
      def open(place)
        connection = place.connection = @connect.call
        place.tells_closed = Object === connection && connection.respond_to?(:closed?)
        place.opened_at = now
      end

      # @param place [Place] with a connection that was idle
      # @return [Boolean]
      def usable?(place)
        return true unless @limited
        idle = now - place.idle_since
        return false if (@idle_timeout && idle >= @idle_timeout) || aged?(place)
        @check.nil? || idle < @check_after || works?(place.connection)
      end

      # @param place [Place] whose user has ended well
      # @return [Boolean] whether the connection can have another user
      def lasting?(place)
        return false if @max_age && aged?(place)
        !place.tells_closed || !place.connection.closed?
      rescue
        false # a client that can't tell is closed
      end

      # Ends a connection. An error of that changes nothing, as the connection is out of use.
      # @param place [Place]
      # @param closer [#call, nil] does so instead
      # @return [void]
      def close(place, closer = nil)
        connection, place.connection, place.opened_at = place.connection, nil, nil
        closer ||= @close
        NeverBlock.timeout(CLOSE_LIMIT) { closer ? closer.call(connection) : finish(connection, place.spoilt) }
      rescue
        nil # a timeout or cancellation of the caller is no StandardError, and passes
      end

      # Keeps a forked child from ending the parent's session, as the collector would, or the child's exit: libmysql and
      # libpq tell the server.
      # @param place [Place]
      # @return [void]
      def disown(place)
        connection, place.connection, place.opened_at = place.connection, nil, nil
        return unless Object === connection
        if connection.respond_to?(:discard!) then connection.discard! # Trilogy
        elsif connection.respond_to?(:automatic_close=) then connection.automatic_close = false # Mysql2::Client
        elsif connection.respond_to?(:socket_io) then connection.socket_io.reopen(IO::NULL) # PG::Connection
        elsif IO === connection then connection.close
        end
      rescue
        nil # a fork must not fail since a client was closed already
      end

      private

      def aged?(place) = @max_age && now - place.opened_at >= @max_age

      def works?(connection)
        NeverBlock.timeout(CHECK_LIMIT) { @check.call(connection) }
      rescue
        false # the connection is replaced, and opening the next one raises what is wrong
      end

      def finish(connection, spoilt)
        return unless Object === connection
        name = (spoilt ? ABANDONING : CLOSING).find { |one| connection.respond_to?(one) }
        connection.public_send(name) if name
      end
    end
  end
end
