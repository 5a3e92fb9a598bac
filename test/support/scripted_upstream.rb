# frozen_string_literal: true

require "neverblock"
require "openssl"
require "socket"

module NeverBlockTest
  # An upstream that does what a test says, byte by byte: a block for each connection, the last one for all that follow.
  # If it is made in a loop, it runs in tasks of that loop, so that a virtual clock may jump; else on threads of its own.
  #
  #   upstream = ScriptedUpstream.new(
  #     ->(peer) { peer.request and peer << "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" }
  #   )
  #   upstream.url          # => "http://127.0.0.1:41234"
  #   upstream.requests     # => ["GET / HTTP/1.1\r\n…"]
  #   upstream.connections  # => 1
  #   upstream.close
  #
  # A connection is closed at the end of its script.
  class ScriptedUpstream
    # The upstream's end of a connection.
    class Peer
      # @return [IO]
      attr_reader :io

      def initialize(io, requests)
        @io = io
        @requests = requests
        @bytes = "".b
      end

      # Reads a request.
      # @return [String, nil] head and content; nil at the end of the stream
      def request
        head = take_until("\r\n\r\n") or return
        content = if (length = head[/^content-length: (\d+)/i, 1]) then take(length.to_i)
        elsif head.match?(/^transfer-encoding: chunked/i) then chunks
        end
        "#{head}#{content}".tap { |text| @requests << text }
      end

      # Reads the head alone.
      # @return [String, nil]
      def head = take_until("\r\n\r\n")&.tap { |text| @requests << text }

      # Reads so many bytes, of a content.
      # @return [String]
      def take(count)
        fill until @bytes.bytesize >= count
        @bytes.slice!(0, count)
      end

      # @return [self]
      def <<(bytes)
        @io.write(bytes)
        @io.flush
        self
      end

      # @return [Boolean] whether the client has closed its end; waits for bytes or that
      def ended?
        @bytes.empty? && @io.readpartial(1).empty?
      rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
        true
      end

      # Keeps the connection open, and reads and writes nothing.
      def hold = Thread::Queue.new.pop

      # Closes with a reset.
      def reset
        @io.to_io.setsockopt(Socket::SOL_SOCKET, Socket::SO_LINGER, [1, 0].pack("ii"))
        @io.to_io.close
      end

      private

      def take_until(mark)
        fill until (at = @bytes.index(mark))
        take(at + mark.bytesize)
      rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
        nil
      end

      def chunks
        text = +""
        loop do
          text << (line = take_until("\r\n") || raise(EOFError, "a chunked request without an end"))
          text << take(line.hex + 2)
          return text if line.hex.zero?
        end
      end

      def fill = @bytes << @io.readpartial(65_536)
    end

    # @return [Array<String>] those that came, in order
    attr_reader :requests
    # @return [Integer]
    attr_reader :connections
    # @return [Exception, nil] that ended a script
    attr_reader :failure

    # @param scripts [Array<#call>] each gets a Peer
    # @param tls [OpenSSL::SSL::SSLContext, nil]
    # @param path [String, nil] of a unix socket
    # @param host [String]
    def initialize(*scripts, tls: nil, path: nil, host: "127.0.0.1")
      @scripts = scripts
      @tls = tls
      @path = path
      @server = path ? UNIXServer.new(path) : TCPServer.new(host, 0)
      @requests = []
      @connections = 0
      @playing = []
      @accepting = begin_aside { accept }
    end

    # @return [Boolean] whether it has a port
    def tcp? = @path.nil?

    # @return [Integer]
    def port = @server.local_address.ip_port

    # @param host [String] as the client names it
    def url(host: "127.0.0.1")
      return "unix:#{@path}" if @path
      "#{@tls ? "https" : "http"}://#{host}:#{port}"
    end

    # @raise [Exception] that ended a script
    def close
      [@accepting, *@playing].each { |one| end_aside(one) }
      @server.close
      raise @failure if @failure
    end

    private

    # @return [NeverBlock::Task, Thread]
    def begin_aside(&)
      NeverBlock::Scheduler.current ? NeverBlock.spawn(transient: true, &) : Thread.new(&)
    end

    def end_aside(one)
      return one.kill.join if Thread === one
      one.cancel
      one.join
    end

    def accept
      loop do
        socket = @server.accept
        script = @scripts[@connections] || @scripts.last
        @connections += 1
        @playing << begin_aside { play(socket, script) }
      end
    end

    # A client that leaves is no failure of a script.
    def play(socket, script)
      io = @tls ? secure(socket) : socket
      script.call(Peer.new(io, @requests)) if io
    rescue SystemCallError, IOError, OpenSSL::SSL::SSLError
      nil
    rescue => error
      @failure = error
    ensure
      (io || socket).close unless socket.closed?
    end

    def secure(socket)
      OpenSSL::SSL::SSLSocket.new(socket, @tls).tap do |secure|
        secure.sync_close = true
        secure.accept
      end
    rescue SystemCallError, OpenSSL::SSL::SSLError
      nil
    end
  end
end
