# frozen_string_literal: true

# The cost of idle open connections: the server's memory before and after so many were answered once each, and whether
# all of them are answered again.
#
#   Bench::Servers::Idle.new(row, seconds: 2).call(server)   # => {"memory_each" => 610.2, "answered_again" => 10_000, ...}
require "socket"
require_relative "../../bench/clock"

module Bench
  class Servers
    class Idle
      WARM = 32 # connections before
      ANSWER = 5 # seconds for one
      LIMIT = 60 # seconds for all

      # @param row [Row]
      # @param seconds [Numeric]
      # @param connections [Integer]
      def initialize(row, seconds:, connections: row.connections)
        @row = row
        @seconds = seconds
        @connections = connections
      end

      # @param server [Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        Wrk.warm_up(server.port, @row.with(connections: WARM), Servers.warm_up(@seconds))
        sockets = []
        connect(server, sockets, WARM)
        before = server.tree.memory
        connect(server, sockets, @connections)
        after = server.tree.memory
        sleep @seconds # idle, as the row's name says
        answered = count_answered(sockets.drop(WARM))
        {"operations" => @connections, "memory" => before, "memory_each" => (after - before).fdiv(@connections),
         "memory_again" => (server.tree.memory - before).fdiv(@connections), "answered_again" => answered, "errors" => @connections - answered}
      ensure
        sockets&.each(&:close)
      end

      private

      def connect(server, sockets, count)
        deadline = Clock.now + LIMIT
        count.times do |number|
          raise Failure, "only #{number} of #{count} connections were answered within #{LIMIT} s" if Clock.now > deadline
          sockets << TCPSocket.new("127.0.0.1", server.port)
          ask(sockets.last) or raise Failure, "connection #{number + 1} of #{count} was not answered"
        end
      end

      def count_answered(sockets)
        deadline = Clock.now + LIMIT
        sockets.count { |socket| Clock.now < deadline && ask(socket) }
      end

      # @return [Boolean] whether the answer came
      def ask(socket)
        socket.write(@row.raw)
        answer = +""
        until answer.end_with?(@row.answer)
          socket.wait_readable(ANSWER) or return false
          answer << socket.readpartial(4_096)
        end
        true
      rescue SystemCallError, EOFError
        false
      end
    end
  end
end
