# frozen_string_literal: true

require_relative "beside"

# Slow and fast requests together, at the same set rate for every server: the fast
# ones' times, from the moment at which each should have been sent.
#
#   Bench::Servers::Mixed.new(row, seconds: 2).call(server)   # => {"p99" => 0.0008, "slow_p99" => 0.0109, ...}
module Bench
  class Servers
    class Mixed < Beside
      FAST = 4_500 # requests a second
      SLOW = 500

      # @param row [Row]
      # @param seconds [Numeric]
      def initialize(row, seconds:)
        super(Load.paced(row.connections, FAST, row.raw), Load.paced(row.connections, SLOW, row.raw("/sleep")), name: "slow", seconds:)
      end
    end
  end
end
