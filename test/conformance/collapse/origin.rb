# frozen_string_literal: true

require "socket"

module Conformance
  module Collapse
    # An origin server that counts its requests, and holds its responses until all clients have asked.
    #
    #   origin = Origin.new
    #   origin.play("/a", hold: true) { |call, request| "HTTP/1.1 200 OK\r\n…" }
    #   origin.release("/a")
    #   origin.calls("/a")           # => 1
    #   origin.most_at_once("/a")    # => 1
    class Origin
      # Seconds that each response takes, so that requests that come one after the other are told from those at once.
      DELAY = 0.05
      SILENCE = 30
      Play = Struct.new(:script, :gate, :calls, :now, :most)
      private_constant :SILENCE, :Play

      # @return [Integer]
      attr_reader :port

      def initialize
        @server = TCPServer.new("127.0.0.1", 0)
        @port = @server.local_address.ip_port
        @lock = Thread::Mutex.new
        @plays = {}
        @thread = Thread.new { loop { Thread.new(@server.accept) { |socket| serve(socket) } } }
        @thread.report_on_exception = false
      end

      # @param path [String]
      # @param hold [Boolean] whether responses wait for {#release}
      # @yieldparam call [Integer] its number, from 1
      # @yieldparam request [String] its head
      # @yieldreturn [String, nil, :silence] the response's bytes; nil: none; :silence: none, and the connection stays open
      # @return [void]
      def play(path, hold: true, &script) = @lock.synchronize { @plays[path] = Play.new(script, Thread::Queue.new.tap { |gate| gate.close unless hold }, 0, 0, 0) }

      # @param path [String]
      # @return [void]
      def release(path) = @plays[path].gate.close

      # @param path [String]
      # @return [Integer]
      def calls(path) = @lock.synchronize { @plays[path].calls }

      # @param path [String]
      # @return [Integer]
      def most_at_once(path) = @lock.synchronize { @plays[path].most }

      # @return [void]
      def close
        @thread.kill
        @server.close
      end

      private

      def serve(socket)
        head = +""
        head << socket.readpartial(4096) until head.include?("\r\n\r\n")
        play = @lock.synchronize { @plays[head[/ (\S+) /, 1]] } or return
        number = @lock.synchronize do
          play.most = [play.most, play.now += 1].max
          play.calls += 1
        end
        play.gate.pop
        sleep DELAY
        response = play.script.call(number, head)
        return socket.wait_readable(SILENCE) if response == :silence
        socket.write(response) if response
      rescue IOError, SystemCallError
        nil # the cache has left
      ensure
        @lock.synchronize { play.now -= 1 } if number
        socket.close
      end
    end
  end
end
