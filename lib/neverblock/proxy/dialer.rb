# frozen_string_literal: true

module NeverBlock
  class Proxy
    # Opens a socket to an upstream. Its name is looked up each time, and its addresses are tried one after another,
    # each for its share of the time that is left.
    #
    #   Dialer.new(upstream, deadlines).call   # => a Socket, or an OpenSSL::SSL::SSLSocket
    # @api private
    class Dialer
      # Seconds until a unix socket whose queue is full is tried again: no event tells when it has room.
      UNIX_PAUSE = 0.01
      private_constant :UNIX_PAUSE

      # @param upstream [Upstream]
      # @param deadlines [Deadlines]
      # @param preface [String, nil] bytes to send first, also before TLS
      def initialize(upstream, deadlines, preface = nil)
        @upstream = upstream
        @deadlines = deadlines
        @preface = preface
      end

      # @return [Socket, OpenSSL::SSL::SSLSocket] connected
      # @raise [ConnectError, TLSError, ConnectTimeout, TotalTimeout]
      def call
        @deadlines.start(:connect)
        socket = @upstream.path ? unix : tcp
        socket.write(@preface) if @preface # the empty buffer of a new socket takes them at once
        opened = @upstream.tls ? secure(socket) : socket
      rescue SystemCallError, SocketError => error
        raise ConnectError.new("can't connect to the upstream #{@upstream}: #{error.message}. Is it running, and is " \
          "its address right?", upstream: @upstream, phase: :connect)
      ensure
        close unless opened
      end

      private

      def tcp
        addresses = look_up
        failure = nil
        until addresses.empty?
          address = addresses.shift
          begin
            return connect(address, share(addresses.size + 1))
          rescue SystemCallError => failure
            close
          end
        end
        raise failure || SocketError.new("#{@upstream.host} has no address")
      end

      def look_up
        return [@upstream.address] if @upstream.address
        @deadlines.limit(:connect) { Addrinfo.getaddrinfo(@upstream.host, @upstream.port, nil, :STREAM) }
      end

      # Seconds for one of so many addresses; nil for the last, whose limit is the deadline itself.
      def share(count)
        left, = @deadlines.left(:connect)
        left / count if left && count > 1
      end

      def connect(address, seconds)
        @socket = Socket.new(address.afamily, Socket::SOCK_STREAM, 0)
        @socket.setsockopt(Socket::IPPROTO_TCP, Socket::TCP_NODELAY, 1)
        if @socket.connect_nonblock(address, exception: false) == :wait_writable
          @deadlines.wait(@socket, IO::WRITABLE, :connect, most: seconds) or raise Errno::ETIMEDOUT, named(address)
          error = @socket.getsockopt(Socket::SOL_SOCKET, Socket::SO_ERROR).int
          raise SystemCallError.new(named(address), error) unless error.zero?
        end
        @socket
      end

      def named(address) = "connect(2) for #{address.inspect_sockaddr}"

      def unix
        @socket = Socket.new(Socket::AF_UNIX, Socket::SOCK_STREAM, 0)
        address = Addrinfo.unix(@upstream.path)
        begin
          @socket.connect_nonblock(address)
        rescue IO::WaitWritable, Errno::EAGAIN
          seconds, phase = @deadlines.left(:connect)
          @deadlines.late(phase) if seconds && seconds <= 0
          sleep(UNIX_PAUSE)
          retry
        end
        @socket
      end

      def secure(socket)
        @upstream.tls.connect(socket, @deadlines)
      rescue OpenSSL::SSL::SSLError, SystemCallError => error
        raise TLSError.new("no TLS with the upstream #{@upstream}, whose certificate must be for " \
          "#{@upstream.tls.name} and signed by a trusted authority: #{error.message}. Set ca_file: for an authority " \
          "of your own, server_name: for another name", upstream: @upstream, phase: :tls)
      end

      def close
        @socket&.close
        @socket = nil
      end
    end
  end
end
