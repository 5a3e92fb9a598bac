# frozen_string_literal: true

# Our own client, compiled from load.c where that is needed: several loads at once,
# loads of a set rate, and a limited number of requests while others count.
#
#   hello = Load.paced(128, 5_000, row.raw)
#   Bench::Servers::Load.run(3000, [hello, Load.closed(500, row.raw("/second"))], seconds: 2)
#   # => {"seconds" => 2.0, "client_busy" => 0.4, "loads" => [{"answers" => 10_000, "p99" => 0.0004, ...}, ...]}
require "json"
require "open3"
require_relative "../bench/c_program"
require_relative "../bench/failure"
require_relative "core"

module Bench
  class Servers
    class Load
      SOURCE = File.join(__dir__, "load.c")
      COUNTING = 20 # seconds until a limited number must have been answered; strace makes everything slow

      class << self
        # Each connection sends when it has been answered.
        def closed(connections, request) = ["closed", connections, 0, request]

        # So many requests a second, over whichever connection is free.
        def paced(connections, rate, request) = ["paced", connections, rate, request]

        # So many a second, each over a connection of its own.
        def fresh(connections, rate, request) = ["fresh", connections, rate, request]

        # The other request that replaces each nth one of the closed load, beginning with the first.
        def every(number, request) = ["every", 0, number, request]

        # @param port [Integer]
        # @param loads [Array<Array>]
        # @param seconds [Numeric]
        # @param warm [Numeric] seconds before anything is counted
        # @return [Hash{String=>Object}]
        # @raise [Failure]
        def run(port, loads, seconds:, warm: 0)
          text, status = Open3.capture2e(*command(port, warm, seconds, 0, loads))
          raise Failure, "the client gave up: #{text.lines.last&.strip}" unless status.success?
          figures(text)
        end

        # Lets the block prepare when all connections are open, then sends so many requests.
        # @param port [Integer]
        # @param load [Array] a closed one
        # @param limit [Integer]
        # @return [Integer] how many were answered
        # @raise [Failure] where not all of them were
        def count(port, load, limit, &)
          answers = exactly(port, [load], limit, seconds: COUNTING, &)["loads"].first["answers"]
          raise Failure, "only #{answers} of #{limit} requests were answered while system calls were counted" if answers < limit
          answers
        end

        # The same, with the results: each connection was used once before.
        # @param loads [Array<Array>] of which the first is a closed one
        # @param seconds [Numeric] at most
        # @return [Hash{String=>Object}]
        # @raise [Failure]
        def exactly(port, loads, limit, seconds:)
          Open3.popen2e(*command(port, 0, seconds, limit, loads)) do |input, output, _|
            line = output.gets
            raise Failure, "the client gave up: #{line&.strip}" unless line == "ready\n"
            yield if block_given?
            input.puts("go")
            figures(output.read)
          end
        end

        private

        def command(port, warm, seconds, limit, loads)
          Core::CLIENT.tie(CProgram.path(SOURCE), *[port, warm, seconds, limit, *loads.flatten].map(&:to_s))
        end

        def figures(text)
          figures = JSON.parse(text[/^\{.*\}$/] || raise(Failure, "the client gave up: #{text.lines.last&.strip}"))
          {**figures, "client_busy" => figures["cpu"] / figures["seconds"]}
        end
      end
    end
  end
end
