# frozen_string_literal: true

# New connections, each for one request, beside keep-alive clients that saturate the
# server: whether those who are in keep out those who come.
#
#   Bench::Servers::BesideBusy.new(row, seconds: 2).call(server)   # => {"p99" => 0.0011, "kept_p99" => 0.0009, ...}
module Bench
  class Servers
    class BesideBusy
      RATE = 500 # new connections a second
      MOST = 1_000 # of them waiting

      # @param row [Row]
      # @param seconds [Numeric]
      def initialize(row, seconds:)
        @loads = [Load.closed(row.connections, row.raw), Load.fresh(MOST, RATE, row.raw)]
        @seconds = seconds
      end

      # @param server [Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        Load.run(server.port, @loads, seconds: Servers.warm_up(@seconds))
        server.watch do
          figures = Load.run(server.port, @loads, seconds: @seconds)
          kept, fresh = figures["loads"]
          answers = kept["answers"] + fresh["answers"]
          {"operations" => answers, "wall" => figures["seconds"], "rate" => answers / figures["seconds"], **fresh.slice("p50", "p99", "longest"),
           "kept_p50" => kept["p50"], "kept_p99" => kept["p99"], "errors" => kept["errors"] + fresh["errors"], "client_busy" => figures["client_busy"]}
        end
      end
    end
  end
end
