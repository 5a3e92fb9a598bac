# frozen_string_literal: true

module NeverBlock
  class Proxy
    # A connection to an upstream: bytes that were read and not used yet, and reads and writes under the deadlines of
    # the exchange that has it. It never reads more than one piece ahead.
    #
    #   connection.begin(deadlines)
    #   connection.write_some(bytes)             # => bytes that were taken, :wait_readable or :wait_writable
    #   connection.receive(:first_byte)          # => true: there are more bytes in connection.unread
    #   connection.quiet?                        # => whether nothing has come, and it is still open
    # @api private
    class Connection
      include MonotonicClock

      # Bytes of one read: of a head, and of content.
      HEAD_PIECE = 16 << 10
      PIECE = 64 << 10
      # A thread's buffer for heads: a new String of that size for each read would be most of an exchange's garbage.
      # No other fiber runs during a read that does not wait.
      BUFFER = :neverblock_proxy_buffer
      EMPTY = "".b.freeze
      private_constant :HEAD_PIECE, :BUFFER, :EMPTY

      # @return [Socket, OpenSSL::SSL::SSLSocket]
      attr_reader :io
      # @return [String] bytes that were read and not used yet
      attr_reader :unread
      # @return [Integer] exchanges that it was used for
      attr_reader :uses
      # @return [Float] when it was opened, and since when it has been idle
      attr_reader :opened_at, :idle_since

      # @param io [Socket, OpenSSL::SSL::SSLSocket]
      # @param upstream [Upstream]
      def initialize(io, upstream)
        @io = io
        @upstream = upstream
        @plain = !upstream.tls?
        @unread = EMPTY
        @uses = 0
        @opened_at = @idle_since = now
      end

      # @param deadlines [Deadlines] of the exchange that uses it now
      # @return [self]
      def begin(deadlines)
        @deadlines = deadlines
        @uses += 1
        @received = false
        @drained = @plain
        self
      end

      # @return [void]
      def rest
        @deadlines = nil
        @idle_since = now
      end

      # @return [Boolean] whether an earlier exchange has used it
      def reused? = @uses > 1

      # @return [Boolean] whether a byte has come in this exchange
      def received? = @received

      # Reads one piece into {#unread}.
      # @param phase [Symbol] :first_byte, :head or :idle
      # @return [Boolean] false at the end of the stream
      # @raise [ConnectionLost, TimeoutError]
      def receive(phase)
        piece = read_piece(HEAD_PIECE, phase, buffer) or return false
        add(piece)
        true
      end

      # The same, without a wait.
      # @return [Boolean, nil] nil: nothing has come
      # @raise [ConnectionLost]
      def receive_now
        piece = guarded { @io.read_nonblock(HEAD_PIECE, buffer, exception: false) }
        return if Symbol === piece
        return false if piece.nil?
        @received = true
        @drained = @plain && piece.bytesize < HEAD_PIECE
        add(piece)
        true
      end

      # A piece of content: first what was read with the head.
      # @param most [Integer] bytes
      # @return [String, nil] nil at the end of the stream
      # @raise [ConnectionLost, TimeoutError]
      def take(most)
        return read_piece((most < PIECE) ? most : PIECE, :idle) if @unread.empty?
        piece = (@unread.bytesize <= most) ? @unread : @unread.byteslice(0, most)
        drop(piece.bytesize)
        piece
      end

      # @param count [Integer] bytes of {#unread} that were used
      # @return [void]
      def drop(count)
        @unread = (count == @unread.bytesize) ? EMPTY : @unread.byteslice(count, @unread.bytesize)
      end

      # Writes what the socket takes at once.
      # @param bytes [String]
      # @return [Integer, :wait_readable, :wait_writable]
      # @raise [ConnectionLost]
      def write_some(bytes)
        @deadlines.check
        guarded { @io.write_nonblock(bytes, exception: false) }
      end

      # @param events [Integer]
      # @param phase [Symbol]
      # @param most [Numeric, nil] seconds
      # @return [Integer, nil] the events that came; nil after `most` seconds
      def wait(events, phase, most: nil) = @deadlines.wait(@io, events, phase, most:)

      # @return [Boolean] whether the last read has taken all that had come: less than it would have taken
      def drained? = @drained && @unread.empty?

      # @return [Boolean] whether it is open, and nothing has come that was not asked for
      def quiet?
        @unread.empty? && @io.read_nonblock(1, buffer, exception: false) == :wait_readable
      rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
        false
      end

      # @return [void]
      def close
        @io.close
      rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
        nil
      end

      # In a forked child: closes the child's descriptor, without a word to the upstream, whose session is the parent's.
      # @return [void]
      def disown
        @io.to_io.close
      rescue SystemCallError, IOError
        nil
      end

      # @param detail [String] what has happened
      # @param phase [Symbol]
      # @raise [ConnectionLost]
      def lost(detail, phase)
        raise ConnectionLost.new("upstream #{@upstream}: #{detail}. See its log", upstream: @upstream, phase:)
      end

      private

      # The buffer itself is for the next read.
      def add(piece)
        @unread = @unread.empty? ? "".b << piece : @unread << piece
      end

      # A socket that the last read has emptied is waited for before it is tried. TLS may have bytes of its own.
      def read_piece(most, phase, buffer = nil)
        @drained ? wait(IO::READABLE, phase) : @deadlines.check
        while Symbol === (piece = guarded { @io.read_nonblock(most, buffer, exception: false) })
          wait((piece == :wait_readable) ? IO::READABLE : IO::WRITABLE, phase)
          @deadlines.check
        end
        return if piece.nil?
        @drained = @plain && piece.bytesize < most
        @received = true
        piece
      end

      def buffer
        thread = Thread.current
        thread.thread_variable_get(BUFFER) ||
          String.new(capacity: HEAD_PIECE).tap { |bytes| thread.thread_variable_set(BUFFER, bytes) }
      end

      def guarded
        yield
      rescue SystemCallError, IOError, OpenSSL::SSL::SSLError => error
        lost("the connection broke: #{error.message} (#{error.class})", :idle)
      end
    end
  end
end
