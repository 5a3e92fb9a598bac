# frozen_string_literal: true

# Actions that compute, that wait and that do a bit of both, together, at the same set rates for every server: each kind's
# times, from the moment at which a request should have been sent.
#
#   Bench::Rails::Mixed.new(row, seconds: 1).call(server)   # => {"p99" => 0.02, "sleep_p99" => 0.08, "cpu_p99" => 0.03, ...}
module Bench
  class Rails
    class Mixed
      # Requests a second: half of a core's work, and of three threads.
      RATES = {"/items.json" => 80, "/sleep" => 30, "/cpu" => 30}.freeze

      # @param row [Servers::Row]
      # @param seconds [Numeric]
      def initialize(row, seconds:)
        @loads = RATES.map { |path, rate| Servers::Load.paced(row.connections, rate, row.raw(path)) }
        @seconds = seconds
      end

      # @param server [Servers::Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        Servers::Load.run(server.port, @loads, seconds: Servers.warm_up(@seconds))
        server.watch do
          figures = Servers::Load.run(server.port, @loads, seconds: @seconds * 2)
          json, sleeping, cpu = figures["loads"]
          answers = figures["loads"].sum { |load| load["answers"] }
          {"operations" => answers, "wall" => figures["seconds"], "rate" => answers / figures["seconds"], **json.slice("p50", "p99"),
           "sleep_p50" => sleeping["p50"], "sleep_p99" => sleeping["p99"], "cpu_p50" => cpu["p50"], "cpu_p99" => cpu["p99"],
           "errors" => figures["loads"].sum { |load| load["errors"] }, "client_busy" => figures["client_busy"]}
        end
      end
    end
  end
end
