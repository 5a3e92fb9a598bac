# frozen_string_literal: true

require "socket"
require_relative "answers"

module NeverBlockPumaFuzz
  # Sends a conversation to a server, and reads until the server closes the connection.
  #
  #   outcome = Client.new(port).call(conversation)
  #   outcome.answers                # => [#<struct Answer …>]
  #   outcome.ending                 # => :closed, or :reset
  #
  # A server that waits for more is left by a half-close, when it has nothing more to say. Time doesn't tell that: the
  # client asks for something on other connections, and the server answers in the order of arrival.
  class Client
    Outcome = Struct.new(:bytes, :ending) do
      # @return [Array<Answers::Answer, String>]
      def answers = @answers ||= Answers.read(bytes)
    end

    LIMIT = 120 # seconds until a wait counts as hanging
    AT_ONCE = 0.02 # seconds that most conversations take, before other connections are used
    ROUNDS = 6 # requests on other connections: a server may take turns after each request of a pipeline
    PROBE = "GET /respond HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

    # @param rounds [Integer]
    def initialize(port, rounds: ROUNDS)
      @port = port
      @rounds = rounds
    end

    # @param conversation [Conversation]
    # @return [Outcome] its ending is :closed, :reset, or :hanging
    def call(conversation)
      @bytes = "".b
      @socket = connect
      conversation.steps.each { |step| follow(step) }
      settle
      @socket.close_write unless @ended
      settled_by(LIMIT) || @ended = :hanging
      Outcome.new(@bytes, @ended)
    rescue Errno::ECONNRESET, Errno::EPIPE, Errno::ENOTCONN
      read until @ended
      Outcome.new(@bytes, :reset)
    ensure
      @socket&.close
      @ended = nil
    end

    private

    def connect = Socket.tcp("127.0.0.1", @port, connect_timeout: LIMIT).tap { |socket| socket.setsockopt(:TCP, :NODELAY, 1) }

    def follow(step)
      return if @ended
      case step
      when String then write(step)
      when :pause then settle
      when :half_close then @socket.close_write
      end
    end

    # The server may answer, or close, before it has taken all.
    def write(text)
      until text.empty? || @ended
        reading, writing = IO.select([@socket], [@socket], nil, LIMIT)
        return @ended = :hanging unless reading || writing
        read if reading.any?
        wrote = @socket.write_nonblock(text, exception: false) if writing.any? && !@ended
        text = text.byteslice(wrote..) if Integer === wrote
      end
    end

    # Waits until the server has nothing more to say for now, or has closed.
    def settle
      return if @ended || settled_by(AT_ONCE)
      quiet = 0
      until @ended || quiet == @rounds
        before = @bytes.bytesize
        probe
        read while !@ended && @socket.wait_readable(0)
        quiet = (@bytes.bytesize == before) ? quiet + 1 : 0
      end
    end

    # @return [Symbol, nil] how the server has ended the connection, if it has within so many seconds
    def settled_by(seconds)
      deadline = now + seconds
      read while !@ended && @socket.wait_readable([deadline - now, 0].max)
      @ended
    end

    def probe
      socket = connect
      socket.write(PROBE)
      @ended = :hanging unless socket.wait_readable(LIMIT) && socket.read.include?("hello")
    ensure
      socket&.close
    end

    def read
      got = @socket.read_nonblock(65_536, exception: false)
      case got
      when String then @bytes << got
      when nil then @ended = :closed
      end
    rescue Errno::ECONNRESET
      @ended = :reset
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
