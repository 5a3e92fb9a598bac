# frozen_string_literal: true

# Fast requests at 30 % of the server's capacity, alone and beside requests that sleep for a second, 500 of them at any
# time.
#
#   Bench::Servers::BesideSlow.new(row, seconds: 2).call(server)   # => {"peak" => 90_000.0, "p99" => 0.001, "alone_p99" => 0.0006, ...}
module Bench
  class Servers
    class BesideSlow
      SHARE = 0.3
      SLEEPING = 500 # at any time: as many begin in a second, each for a second
      CONNECTIONS = 128
      SETTLED = 1.2 # seconds until as many sleep

      # @param row [Row]
      # @param seconds [Numeric]
      def initialize(row, seconds:)
        @row = row
        @seconds = seconds
      end

      # @param server [Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        saturating = [Load.closed(@row.connections, @row.raw)]
        Load.run(server.port, saturating, seconds: Servers.warm_up(@seconds))
        peak = rate(Load.run(server.port, saturating, seconds: @seconds))
        fast = Load.paced(CONNECTIONS, peak * SHARE, @row.raw)
        slow = Load.paced(SLEEPING * 2, SLEEPING, @row.raw("/second"))
        server.watch(objects: false) do
          alone = Load.run(server.port, [fast], seconds: @seconds)
          beside = Load.run(server.port, [fast, slow], seconds: @seconds, warm: SETTLED)
          combine(peak, alone, beside)
        end
      end

      private

      def rate(figures) = figures["loads"].first["answers"] / figures["seconds"]

      def combine(peak, alone, beside)
        fast, slow = beside["loads"]
        {"operations" => fast["answers"], "wall" => beside["seconds"], "peak" => peak, "rate" => rate(beside),
         **fast.slice("p50", "p99", "longest"), "alone_p50" => alone["loads"].first["p50"], "alone_p99" => alone["loads"].first["p99"],
         "slow_p50" => slow["p50"], "slow_rate" => slow["answers"] / beside["seconds"], "errors" => fast["errors"] + slow["errors"],
         "client_busy" => beside["client_busy"]}
      end
    end
  end
end
