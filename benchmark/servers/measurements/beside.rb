# frozen_string_literal: true

# Two loads at once: how long requests of the first take beside the second.
#
#   Bench::Servers::Beside.new(fast, slow, name: "slow", seconds: 2).call(server)
#   # => {"p99" => 0.0008, "slow_p99" => 0.0109, ...}
module Bench
  class Servers
    class Beside
      # @param load [Hash] the measured load
      # @param other [Hash]
      # @param name [String] of the other load, for its figures
      # @param seconds [Numeric]
      def initialize(load, other, name:, seconds:)
        @loads = [load, other]
        @name = name
        @seconds = seconds
      end

      # @param server [Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        Load.run(server.port, @loads, seconds: Servers.warm_up(@seconds))
        server.watch do
          figures = Load.run(server.port, @loads, seconds: @seconds)
          load, other = figures["loads"]
          answers = load["answers"] + other["answers"]
          {"operations" => answers, "wall" => figures["seconds"], "rate" => answers / figures["seconds"], **load.slice("p50", "p99", "longest"),
           "#{@name}_p50" => other["p50"], "#{@name}_p99" => other["p99"], "errors" => load["errors"] + other["errors"], "client_busy" => figures["client_busy"]}
        end
      end
    end
  end
end
