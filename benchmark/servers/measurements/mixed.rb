# frozen_string_literal: true

# Slow and fast requests together, at the same set rate for every server: the fast
# ones' times, from the moment at which each should have been sent.
#
#   Bench::Servers::Mixed.new(row, seconds: 2).call(server)   # => {"p99" => 0.0008, "slow_p99" => 0.0109, ...}
module Bench
  class Servers
    class Mixed
      FAST = 4_500 # requests a second
      SLOW = 500

      # @param row [Row]
      # @param seconds [Numeric]
      def initialize(row, seconds:)
        @loads = [Load.paced(row.connections, FAST, row.raw), Load.paced(row.connections, SLOW, row.raw("/sleep"))]
        @seconds = seconds
      end

      # @param server [Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        Load.run(server.port, @loads, seconds: Servers.warm_up(@seconds))
        server.watch do
          figures = Load.run(server.port, @loads, seconds: @seconds)
          fast, slow = figures["loads"]
          answers = fast["answers"] + slow["answers"]
          {"operations" => answers, "wall" => figures["seconds"], "rate" => answers / figures["seconds"], **fast.slice("p50", "p99", "longest"),
           "slow_p50" => slow["p50"], "slow_p99" => slow["p99"], "errors" => fast["errors"] + slow["errors"], "client_busy" => figures["client_busy"]}
        end
      end
    end
  end
end
