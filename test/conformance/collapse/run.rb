# frozen_string_literal: true

require "securerandom"
require "socket"
require_relative "../http_cache/contestant"
require_relative "cases"
require_relative "origin"

module Conformance
  module Collapse
    # The cases, through one cache.
    #
    #   Run.new(HttpCache::Contestant.named("nginx", collapse: true)).call.results["it may be shared"].calls    # => 1
    class Run
      # `calls` of the origin server, `most` of them at once; `bodies` of the clients that stayed; `seconds`.
      Result = Struct.new(:calls, :most, :bodies, :seconds) do
        # @return [Integer] bodies that several clients have
        def shared = bodies.size - bodies.uniq.size
      end

      # Seconds until all clients' requests have reached the cache, and until its last request has reached the origin
      # server: nothing outside of a cache tells.
      SETTLE = 1
      LIMIT = 30

      # @return [HttpCache::Contestant]
      attr_reader :contestant
      # @return [Hash{String=>Result}] by the names of cases
      attr_reader :results

      # @param contestant [HttpCache::Contestant]
      def initialize(contestant)
        @contestant = contestant
        @results = {}
      end

      # @return [self]
      def call
        @origin = Origin.new
        @contestant.open(@origin.port) do |url|
          @port = url[/\d+\z/].to_i
          CASES.each { |one| @results[one.name] = play(one) }
        end
        self
      ensure
        @origin&.close
      end

      private

      def play(one)
        path = "/#{SecureRandom.hex(8)}"
        warm(one, path) if one.warm
        @origin.play(path, &one.response)
        sockets = Array.new(CLIENTS) { |n| ask(path, one.request&.call(n), one.verb) }
        sleep SETTLE
        leaving = sockets.shift(one.leave.to_i)
        leaving.each(&:close)
        sleep SETTLE unless leaving.empty?
        started = now
        @origin.release(path)
        bodies = sockets.map { |socket| Thread.new { body(socket) } }.map(&:value)
        seconds = now - started
        sleep SETTLE # for what goes on in the background
        Result.new(@origin.calls(path), @origin.most_at_once(path), bodies, seconds)
      end

      # Its second is over when the clients ask.
      def warm(one, path)
        @origin.play(path, hold: false, &one.warm)
        body(ask(path, nil))
        sleep 2.5
      end

      def ask(path, fields, verb = nil)
        socket = TCPSocket.new("127.0.0.1", @port)
        socket.write("#{verb || "GET"} #{path} HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n#{fields&.map { |field| "#{field}\r\n" }&.join}\r\n")
        socket
      end

      # @return [String] status and body
      def body(socket)
        socket.timeout = LIMIT
        head, _, body = socket.read.partition("\r\n\r\n")
        "#{head[/ (\d{3})/, 1]} #{body}"
      rescue IO::TimeoutError, SystemCallError => error
        error.class.name
      ensure
        socket.close
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end
end
