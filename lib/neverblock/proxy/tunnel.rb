# frozen_string_literal: true

module NeverBlock
  class Proxy
    # Passes bytes both ways after 101 (Switching Protocols), as long as they come. Of each direction it holds one piece
    # at most: a slow reader slows the other end down. It is given to the server as `rack.hijack`, and runs in the
    # request's fiber or thread.
    #
    #   tunnel = Tunnel.new(response, idle: 300) { over }
    #   [101, {"rack.hijack" => tunnel, …}, tunnel]
    # @api private
    class Tunnel
      # Bytes that come from one end and go to the other.
      class Pipe
        # Bytes of one piece.
        PIECE = 64 << 10
        private_constant :PIECE

        # @return [IO]
        attr_reader :from, :to

        # @param from [IO, OpenSSL::SSL::SSLSocket]
        # @param to [IO, OpenSSL::SSL::SSLSocket]
        # @param bytes [String] that have come already
        def initialize(from, to, bytes = "".b)
          @from = from
          @to = to
          @bytes = bytes
          @ended = @closed = false
        end

        # Passes one piece on, as far as that is possible at once.
        # @return [Boolean] whether there was anything
        def move
          return false if @closed
          came = read if @bytes.empty?
          (write unless @closed || @bytes.empty?) || came || false
        end

        # @return [Boolean] whether its end was passed on too
        def closed? = @closed

        # @return [IO, nil] that it waits for, to read
        def reads = (@from if !@closed && @bytes.empty?)

        # @return [IO, nil] that it waits for, to write
        def writes = (@to unless @closed || @bytes.empty?)

        private

        def read
          case piece = @from.read_nonblock(PIECE, exception: false)
          when Symbol then false
          when nil then finish
          else
            @bytes = piece
            true
          end
        end

        def write
          count = @to.write_nonblock(@bytes, exception: false)
          return false if Symbol === count
          @bytes = (count == @bytes.bytesize) ? "".b : @bytes.byteslice(count..)
          true
        end

        # TLS has no end of one direction alone.
        def finish
          @closed = true
          (BasicSocket === @to) ? @to.shutdown(Socket::SHUT_WR) : @to.close
          true
        end
      end

      # @param response [Response] 101
      # @param idle [Numeric] seconds without a byte after which it ends
      # @yield once, when it is over
      def initialize(response, idle:, &over)
        @response = response
        @idle = idle
        @over = over
      end

      # @param client [IO] the connection to the client
      # @return [void]
      def call(client)
        upstream, unread = @response.detach
        up = Pipe.new(client, upstream)
        down = Pipe.new(upstream, client, unread)
        pass([up, down]) until up.closed? && down.closed?
      rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
        nil # one end has left, or both were silent: the other one sees it by the close below
      ensure
        upstream&.close
        client.close
        close
      end

      # A server that doesn't hand over its connection has no content to send.
      # @return [void]
      def each
      end

      # @return [void]
      def close
        @response.close
      ensure
        over, @over = @over, nil
        over&.call(nil)
      end

      private

      def pass(pipes)
        return sleep(0) if pipes.map(&:move).any? # others have their turn
        IO.select(pipes.filter_map(&:reads), pipes.filter_map(&:writes), nil, @idle) or
          raise IOError, "no byte has come for #{@idle} s"
      end
    end
  end
end
