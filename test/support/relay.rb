# frozen_string_literal: true

require "socket"

module NeverBlockTest
  # Stands between a client and its server, and can withhold responses, from their first bytes on or in their middle.
  #
  #   relay = Relay.new { UNIXSocket.new(redis.path) }
  #   client = TCPSocket.new("127.0.0.1", relay.port)
  #   relay.withhold(after: 3)    # three bytes go through, then silence
  #   relay.withheld              # => 0, or how many bytes wait
  #   relay.let_go
  #   relay.close
  class Relay
    # @yieldreturn [IO] a new connection to the server
    def initialize(&connect)
      @connect = connect
      @lock = Thread::Mutex.new
      @changed = Thread::ConditionVariable.new
      @allowance = nil
      @withheld = @accepted = 0
      @server = TCPServer.new("127.0.0.1", 0)
      @ends = []
      @threads = [Thread.new { accept }]
    end

    # @return [Integer]
    def port = @server.addr[1]

    # @return [Integer] bytes of responses that wait
    def withheld = @lock.synchronize { @withheld }

    # @return [Integer] connections so far
    def accepted = @lock.synchronize { @accepted }

    # @param after [Integer] bytes of responses that go through first
    # @return [void]
    def withhold(after: 0) = @lock.synchronize { @allowance = after }

    # @return [void]
    def let_go
      @lock.synchronize do
        @allowance = nil
        @changed.broadcast
      end
    end

    # @return [void]
    def close
      let_go
      [@server, *@ends].each(&:close)
      @threads.each { |thread| thread.kill.join }
    end

    private

    def accept
      loop do
        client = @server.accept
        server = @connect.call
        @lock.synchronize { @accepted += 1 }
        @ends.push(client, server)
        @threads << Thread.new { requests(client, server) } << Thread.new { responses(server, client) }
      end
    rescue IOError, SystemCallError
      nil
    end

    def requests(client, server)
      IO.copy_stream(client, server)
      server.close_write
    rescue IOError, SystemCallError
      nil
    end

    def responses(server, client)
      loop do
        bytes = server.readpartial(65_536)
        client.write(take(bytes)) until bytes.empty?
      end
    rescue IOError, SystemCallError
      begin
        client.close_write
      rescue IOError, SystemCallError
        nil
      end
    end

    # @return [String] what may go on of the bytes, which lose it
    def take(bytes)
      @lock.synchronize do
        @withheld += bytes.bytesize
        @changed.wait(@lock) while @allowance == 0
        @withheld -= bytes.bytesize
        count = [@allowance || bytes.bytesize, bytes.bytesize].min
        @allowance -= count if @allowance
        bytes.slice!(0, count)
      end
    end
  end
end
