# frozen_string_literal: true

# A thousand requests, so many at once, each over a connection of its own as `ab` sends them: until all are answered, and how long
# those take that do not sleep.
#
#   Bench::RailsWorkloads::Workload.new(row).call(server)   # => {"wall" => 9.1, "p99" => 0.2, "errors" => 0, ...}
module Bench
  class RailsWorkloads < Rails
    class Workload
      # Answered in full before anything counts, since a wrong answer may be a fast one.
      ONE = Servers::Row.new(id: "one", title: "select 1", path: "/one", answer: "1", fields: ["Connection: close"].freeze)

      # @param row [Row]
      def initialize(row)
        @row = row
      end

      # @param server [Servers::Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        server.expect(ONE)
        server.watch(objects: false) do
          loads = [Servers::Load.closed(@row.concurrency, ONE.raw), Servers::Load.every(@row.every, ONE.raw("/second"))]
          figures = Servers::Load.exactly(server.port, loads, REQUESTS, seconds: PATIENCE)
          combine(figures, *figures["loads"])
        end
      end

      private

      # A request without an answer at the end is an error too.
      def combine(figures, fast, slow)
        answers = fast["answers"] + slow["answers"]
        {"operations" => answers, "wall" => figures["seconds"], "rate" => answers / figures["seconds"], **fast.slice("p50", "p99", "longest"),
         "slow_p50" => slow["p50"], "slow_longest" => slow["longest"], "errors" => REQUESTS - answers}
      end
    end
  end
end
