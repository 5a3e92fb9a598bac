# frozen_string_literal: true

require "io/wait"
require "mysql2"
require "socket"

module NeverBlock
  class MySQL
    # A client of the gem mysql2 with the methods of a Trilogy, for {Connection}. The fiber waits for a response's first
    # byte with the loop. mysql2 reads the response, and connects, in C: a thread does that.
    #
    #   client = Mysql2Client.new({host: "db"}) { |options| Mysql2::Client.new(options) }
    #   client.query("select 1").rows    # => [[1]]
    #
    # It raises the errors of trilogy, whose causes are those of mysql2.
    # @api private
    class Mysql2Client
      include MonotonicClock

      # What {Connection} and {VirtualConnection} read of a response. `raw` is mysql2's own.
      Result = Struct.new(:raw, :affected_rows, :last_insert_id) do
        # @return [Array<Array>]
        def rows = raw ? raw.to_a : []
      end

      # Of statements of our own.
      PLAIN = Mysql2::Client.default_query_options.merge(as: :array).freeze
      # Bytes of a statement that fit into the socket's buffer: longer ones are sent by a thread.
      SHORT = 16_384
      # Codes of mysql2's library, not of the server.
      LOCAL = 2000..2999
      # Ends a transaction in any case; the server reports it only if it was open.
      ENDED = /\A\s*(?:commit|rollback)\s*\z/i
      # Bytes of the longest text that is compared with it: an INSERT may have megabytes.
      LONGEST_END = 32
      # Of which the driver takes whole seconds only: half a second would be 0 for it, which is no limit.
      TIMEOUTS = %i[connect_timeout read_timeout write_timeout].freeze
      private_constant :PLAIN, :SHORT, :LOCAL, :ENDED, :TIMEOUTS, :LONGEST_END

      # @param options [Hash{Symbol=>Object}] of Mysql2::Client.new
      # @yieldparam options [Hash{Symbol=>Object}]
      # @yieldreturn [Mysql2::Client] a new one
      def initialize(options)
        given = whole_seconds(options)
        limits = given.values_at(:read_timeout, :write_timeout).compact.map { |seconds| Integer(seconds) }
        @limit = limits.select(&:positive?).min
        @client = working(->(late) { late&.close }) { yield given }
        @read_timeout = (Numeric === options[:read_timeout]) ? options[:read_timeout] : @client.read_timeout
        @socket = own_socket
        @query_flags = PLAIN
        @in_transaction = false
      end

      # @return [Hash{Symbol=>Object}, Integer] options of the queries; a number: those of our own
      attr_accessor :query_flags

      # @param sql [String]
      # @return [Result]
      # @raise [Trilogy::Error]
      def query(sql)
        translated do
          options = (Hash === @query_flags) ? {**@query_flags, stream: false, async: true} : {**PLAIN, async: true}
          (sql.bytesize > SHORT) ? busy { @client.query(sql, options) } : @client.query(sql, options)
          unless @socket.wait_readable(@read_timeout)
            raise Mysql2::Error::TimeoutError, "Timeout waiting for a response from the last query. " \
              "(waited #{@read_timeout} seconds)"
          end
          result(busy { @client.async_result }).tap { @in_transaction = false if ends_transaction?(sql) }
        end
      end

      # @return [Result, nil] the next of several
      def next_result
        translated { result(busy { @client.next_result && @client.store_result }) if @client.more_results? }
      end

      # @return [Integer]
      def abandon_results!
        translated { busy { @client.abandon_results! } }
        0
      end

      # mysql2 does not tell it, but what the server reports of a session: the transaction's state when it has changed.
      # @return [Integer] Trilogy::SERVER_STATUS_…
      def server_status
        reported = @client.session_track(Mysql2::Client::SESSION_TRACK_TRANSACTION_STATE)&.last
        @in_transaction = reported.match?(/\A[TI]/) if reported
        changed = @client.session_track(Mysql2::Client::SESSION_TRACK_STATE_CHANGE)&.first == "1"
        Trilogy::SERVER_STATUS_AUTOCOMMIT |
          (@in_transaction ? Trilogy::SERVER_STATUS_IN_TRANS : 0) |
          (@client.more_results? ? Trilogy::SERVER_STATUS_MORE_RESULTS_EXISTS : 0) |
          (changed ? Trilogy::SERVER_STATUS_SESSION_STATE_CHANGED : 0)
      end

      # @return [Integer]
      def warning_count = @client.warning_count

      # @return [true]
      # @raise [Trilogy::Error] if the server has closed it
      def ping
        return true if translated { busy { @client.ping } }
        raise Trilogy::ConnectionClosed, "the server has closed the connection"
      end

      # Looks whether the server has closed it, without asking.
      # @return [true]
      # @raise [Trilogy::ConnectionClosed]
      def check
        return true if @socket.recv_nonblock(1, Socket::MSG_PEEK, exception: false) == :wait_readable
        raise Trilogy::ConnectionClosed, "the server has closed the connection"
      rescue SystemCallError => error
        raise Trilogy::ConnectionClosed, error.message
      end

      # @param option [Integer] Mysql2::Client::OPTION_…
      # @return [true]
      def set_server_option(option) = translated { busy { @client.set_server_option(option) } }

      # @param name [String]
      # @return [String]
      def change_db(name) = translated { busy { @client.select_db(name) } }

      # @param string [String]
      # @return [String]
      def escape(string) = @client.escape(string)

      # @return [Encoding]
      def encoding = @client.encoding

      # @return [String]
      def server_version = @client.server_info[:version]

      # @return [void]
      def close
        @client.close
      ensure
        @socket.close
      end

      # For a forked child: sends nothing.
      # @return [void]
      def discard! = @client.automatic_close = false

      private

      # @return [Hash{Symbol=>Object}] others, since mysql2 changes them
      def whole_seconds(options)
        options.to_h { |name, value| [name, (TIMEOUTS.include?(name) && Numeric === value) ? value.ceil : value] }
      end

      # The whole text, since COMMIT AND CHAIN and ROLLBACK TO SAVEPOINT leave one open.
      def ends_transaction?(sql) = sql.bytesize <= LONGEST_END && ENDED.match?(sql.b)

      # The driver closes its own after an error, and then another connection may have got the number.
      def own_socket
        theirs = Socket.for_fd(@client.socket)
        theirs.autoclose = false
        theirs.dup
      end

      def result(raw)
        return Result.new(raw, nil, nil) if raw
        Result.new(nil, @client.affected_rows, @client.last_id)
      end

      # A thread may not be left alone with the client: when the fiber has to go, the socket is shut down, which ends
      # the call.
      #
      # @raise [Mysql2::Error] in C a wait that was too long ends as if the server had closed the connection: here it is
      #   a Mysql2::Error::TimeoutError, since the server goes on
      def busy(&)
        started = now
        working(->(_late) {}, -> { @socket.shutdown }, &)
      rescue Mysql2::Error => error
        raise unless @limit && now - started >= @limit && LOCAL.cover?(error.error_number)
        raise Mysql2::Error::TimeoutError, "Timeout in mid-response or mid-statement (waited #{@limit} seconds)"
      end

      # @param late [#call] gets the value of a call whose fiber has left
      # @param stop [#call, nil] ends the call of a fiber that leaves, which then waits for the end
      def working(late, stop = nil)
        left, done = false, Thread::Queue.new
        began = false
        value = ThreadPool.offload.call do
          began = true
          next if left # it has not waited for this call: the client may be closed already
          value = yield
          left ? late.call(value) : value
        ensure
          done.close
        end
        whole = true
        value
      ensure
        left = true
        if stop && began && !whole && !done.closed? # else it was the call that failed
          begin
            stop.call
          rescue SystemCallError, IOError
            nil # it is shut down
          end
          Scheduler.uninterrupted { done.pop }
        end
      end

      def translated
        yield
      rescue Mysql2::Error => error
        code = error.error_number
        raise Trilogy::ProtocolError.from_code(error.message, code) if code && !LOCAL.cover?(code)
        raise Trilogy::TimeoutError, error.message if Mysql2::Error::TimeoutError === error
        raise Trilogy::EOFError, error.message
      end
    end
  end
end
