# frozen_string_literal: true

require_relative "beside"

# New connections, each for one request, beside keep-alive clients that saturate the server: whether kept connections
# delay new ones.
#
#   Bench::Servers::BesideBusy.new(row, seconds: 2).call(server)   # => {"p99" => 0.0011, "kept_p99" => 0.0009, ...}
module Bench
  class Servers
    class BesideBusy < Beside
      RATE = 500 # new connections a second
      MOST = 1_000 # of them waiting

      # @param row [Row]
      # @param seconds [Numeric]
      def initialize(row, seconds:)
        super(Load.fresh(MOST, RATE, row.raw), Load.closed(row.connections, row.raw), name: "kept", seconds:)
      end
    end
  end
end
