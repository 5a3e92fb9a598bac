# frozen_string_literal: true

# Fast requests at 30 % of the server's capacity: alone, beside queries of 50 ms at a set rate, and beside ten clients
# with queries of a second.
#
#   Bench::Rails::Beside.new(row, seconds: 1).call(server)   # => {"alone_p99" => 0.004, "queries_p99" => 0.006, "seconds_p99" => 0.005, ...}
module Bench
  class Rails
    class Beside
      SHARE = 0.3
      QUERIES = 50 # a second: two or three at any time
      SLEEPING = 10
      CONNECTIONS = 32
      SETTLED = 1.2 # seconds until as many wait as will

      # @param row [Servers::Row]
      # @param seconds [Numeric]
      def initialize(row, seconds:)
        @row = row
        @seconds = seconds
      end

      # @param server [Servers::Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        saturating = [Servers::Load.closed(@row.connections, @row.raw)]
        Servers::Load.run(server.port, saturating, seconds: Servers.warm_up(@seconds))
        figures = Servers::Load.run(server.port, saturating, seconds: @seconds)
        peak = figures["loads"].first["answers"] / figures["seconds"]
        fast = Servers::Load.paced(CONNECTIONS, peak * SHARE, @row.raw)
        server.watch(objects: false) do
          all = {"alone" => [], "queries" => [Servers::Load.paced(CONNECTIONS, QUERIES, @row.raw("/sleep"))],
                 "seconds" => [Servers::Load.closed(SLEEPING, @row.raw("/second"))]}
            .transform_values { |slow| Servers::Load.run(server.port, [fast, *slow], seconds: @seconds * 2, warm: SETTLED) }
          combine(peak, all)
        end
      end

      private

      def combine(peak, all)
        answers = all.values.sum { |figures| figures["loads"].first["answers"] }
        seconds = all.values.sum { |figures| figures["seconds"] }
        {"operations" => answers, "wall" => seconds, "peak" => peak, "rate" => answers / seconds,
         **all.flat_map { |name, figures| %w[p50 p99].map { |figure| ["#{name}_#{figure}", figures["loads"].first[figure]] } }.to_h,
         "slept" => all["seconds"]["loads"].last["answers"] / all["seconds"]["seconds"],
         "errors" => all.values.sum { |figures| figures["loads"].sum { |load| load["errors"] } }}
      end
    end
  end
end
