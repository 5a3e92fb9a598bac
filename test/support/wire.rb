# frozen_string_literal: true

require "socket"
require_relative "clock"
require_relative "limit"

module NeverBlockTest
  # A low-level HTTP client for a server under test: it writes given bytes, and reads complete answers more strictly
  # than browsers do.
  #
  #   wire = Wire.new("tcp://127.0.0.1:43211")
  #   wire << "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
  #   answer = wire.answer
  #   answer.status           # => 200
  #   answer["content-type"]  # => "text/plain"
  #   answer.body             # => "hello"
  #   wire.ended?             # waits for the server to close, with nothing before it
  class Wire
    include Clock

    # The bytes are not an HTTP answer.
    class Malformed < StandardError; end

    # The connection ended in the middle of an answer.
    class Truncated < StandardError
      # @return [Answer, nil] the incomplete answer, if its head arrived
      attr_reader :answer

      def initialize(message, answer = nil)
        super(message)
        @answer = answer
      end
    end

    # Nothing arrived in time.
    class Silent < StandardError; end

    # @!attribute framing
    # @return [:none, :length, :chunked, :close] how the end of the body is determined
    # @!attribute chunks
    # @return [Array<String>] of a chunked body
    # @!attribute interim
    # @return [Array<Answer>] the 1xx answers before
    # @!attribute trailers
    # @return [Array<Array(String, String)>] after a chunked body
    Answer = Struct.new(:status, :reason, :fields, :body, :framing, :chunks, :interim, :trailers) do
      def [](name) = all(name).first

      def all(name) = fields.filter_map { |key, value| value if key.casecmp?(name) }
    end

    FIELD = /\A([!#$%&'*+.^_`|~0-9A-Za-z-]+): ([\t\x20-\x7E\x80-\xFF]*)\z/n
    OUTQ = 0x5411 # SIOCOUTQ of Linux

    # @return [BasicSocket]
    attr_reader :socket

    # @param address [String] "tcp://127.0.0.1:43211" or "unix:///run/a.sock"
    # @param receive [Integer, nil] the size of the kernel's receive buffer, in bytes
    # @param limit [Numeric] seconds for each read and write
    def initialize(address, receive: nil, limit: LIMIT)
      @limit = limit
      address = address[/[^?]+/] # strips the options after the "?"
      @socket =
        if address.start_with?("unix://")
          UNIXSocket.new(address.delete_prefix("unix://"))
        else
          host, port = address.delete_prefix("tcp://").split(":")
          tcp(host, port, receive)
        end
      @read = "".b
      @at = 0 # bytes before it have been consumed
    end

    # @return [self] once the kernel has all bytes
    def <<(bytes)
      bytes = bytes.b
      until bytes.empty?
        wrote = @socket.write_nonblock(bytes, exception: false)
        next bytes = bytes.byteslice(wrote..) if wrote != :wait_writable
        raise Silent, "the server took nothing for #{@limit} s" unless @socket.wait_writable(@limit)
      end
      self
    end

    # Writes the pieces one after the other, each once the server has read the one before. Over a unix socket, whose
    # kernel buffer tells that.
    def send_apart(*pieces)
      pieces.each do |piece|
        self << piece
        deadline = now + @limit
        until unread_by_server.zero?
          raise Silent, "the server did not read" if now > deadline
          sleep 0
        end
      end
      self
    end

    # @param head [Boolean] whether it is the answer to a HEAD
    # @return [Answer] the next final answer
    # @raise [Malformed, Truncated, Silent]
    def answer(head: false)
      interim = []
      loop do
        answer = read_head
        if answer.status >= 200 || answer.status == 101
          answer.interim = interim
          return read_body(answer, head)
        end
        forbid(answer, "content-length", "transfer-encoding")
        interim << answer
      end
    end

    # @return [Array<Answer>]
    def answers(count) = Array.new(count) { answer }

    # Reads a head only, of any status.
    # @return [Answer]
    def read_head
      lines = head_lines
      raise Malformed, "the status line #{lines.first.inspect}" unless lines.first =~ %r{\AHTTP/1\.1 ([1-9]\d\d) ([^\r\n]*)\z}n
      Answer.new($1.to_i, $2, fields_of(lines.drop(1)), "".b, :none, [], [], [])
    end

    # Reads up to so many bytes, unparsed.
    # @return [String]
    def read(length)
      fill(length)
      take(length)
    end

    # @return [String] up to and including the ending
    def read_to(ending)
      searched = 0
      until (found = @read.byteindex(ending, @at + searched))
        searched = [unread - ending.bytesize + 1, 0].max
        fill(unread + 1)
      end
      take(found + ending.bytesize - @at)
    end

    # @return [String] all bytes until the server closes
    def rest
      nil while more
      take(unread)
    end

    # Waits for the server's close.
    # @return [Boolean] whether nothing arrived before that
    # @raise [Errno::ECONNRESET] if the connection was reset
    def ended?
      nil while unread.zero? && more
      unread.zero?
    end

    # @return [Boolean] whether nothing has arrived, nor the connection ended
    def quiet?
      return false if unread.positive?
      got = @socket.read_nonblock(65_536, exception: false)
      @read << got if String === got
      got == :wait_readable
    end

    # @return [Boolean] whether the connection was reset; waits for its end
    def reset?
      rest
      false
    rescue Errno::ECONNRESET
      true
    end

    # Closes the sending direction.
    def close_write
      @socket.close_write
      self
    end

    def close = @socket.close

    # Resets the connection, as a crashing client does.
    def reset
      @socket.setsockopt(Socket::SOL_SOCKET, Socket::SO_LINGER, [1, 0].pack("ii"))
      @socket.close
    end

    private

    def tcp(host, port, receive)
      socket = Socket.new(:INET, :STREAM)
      socket.setsockopt(:TCP, :NODELAY, 1)
      socket.setsockopt(:SOCKET, :RCVBUF, receive) if receive
      socket.connect(Socket.sockaddr_in(port, host))
      socket
    end

    def unread_by_server
      return 0 unless RUBY_PLATFORM.include?("linux")
      size = [0].pack("i")
      @socket.ioctl(OUTQ, size)
      size.unpack1("i")
    end

    # Up to the empty line.
    def head_lines(lines = [], least: 1)
      loop do
        line = read_to("\n")
        raise Malformed, "a line without CRLF: #{line.inspect}" unless line.end_with?("\r\n")
        return lines if line == "\r\n" && lines.size >= least
        lines << line.delete_suffix("\r\n")
      end
    rescue Truncated
      raise unless lines.any? && unread.zero?
      raise Truncated, "the connection ended within a head: #{lines.inspect}"
    end

    def fields_of(lines) = lines.map { |line| line.match(FIELD)&.captures || raise(Malformed, "the field #{line.inspect}") }

    def read_body(answer, head)
      lengths, codings = answer.all("content-length"), answer.all("transfer-encoding")
      raise Malformed, "no Date: #{answer.fields}" if answer["date"].nil?
      raise Malformed, "lengths #{lengths}, codings #{codings}" if lengths.size + codings.size > 1
      raise Malformed, "the coding #{codings.first}" unless [nil, "chunked"].include?(codings.first)
      if answer.status == 204 || answer.status == 101
        forbid(answer, "content-length", "transfer-encoding")
      elsif head || answer.status == 304
        answer.framing = :none
      elsif codings.any?
        read_chunks(answer)
      elsif lengths.any?
        read_length(answer, Integer(lengths.first, 10))
      else
        read_rest(answer)
      end
      answer
    end

    def forbid(answer, *names)
      names.each { |name| raise Malformed, "#{answer.status} with #{name}" if answer[name] }
    end

    def read_chunks(answer)
      answer.framing = :chunked
      loop do
        line = read_to("\r\n")
        raise Malformed, "the chunk size #{line.inspect}" unless line.match?(/\A[0-9a-f]{1,16}\r\n\z/)
        size = line.to_i(16)
        return answer.trailers = fields_of(head_lines(least: 0)) if size.zero?
        data = read(size + 2)
        raise Malformed, "no CRLF after a chunk" unless data.end_with?("\r\n")
        answer.chunks << data.delete_suffix("\r\n")
        answer.body << answer.chunks.last
      end
    rescue Truncated => error
      raise Truncated.new(error.message, answer)
    end

    def read_length(answer, length)
      answer.framing = :length
      answer.body = read(length)
    rescue Truncated => error
      answer.body = take(unread)
      raise Truncated.new(error.message, answer)
    end

    def read_rest(answer)
      raise Malformed, "a body without an end: #{answer.fields}" unless answer["connection"]&.downcase == "close"
      answer.framing = :close
      answer.body = rest
    end

    def unread = @read.bytesize - @at

    def take(length)
      piece = @read.byteslice(@at, length)
      @at += length
      piece
    end

    def fill(length)
      while unread < length
        more or raise Truncated, "the connection ended, #{length - unread} bytes early: #{@read.byteslice(@at..).byteslice(-200..)}"
      end
    end

    # @return [Boolean] false at the end
    def more
      @read, @at = @read.byteslice(@at..), 0 if @at > 65_536
      got = @socket.read_nonblock(262_144, exception: false)
      case got
      when :wait_readable
        raise Silent, "nothing came for #{@limit} s; so far: #{@read.byteslice(@at, 200).inspect}" unless @socket.wait_readable(@limit)
        more
      when String then @read << got && true
      else false
      end
    end
  end
end
