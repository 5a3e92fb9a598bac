# frozen_string_literal: true

require "net/http"

# wrk asks the proxy; how often the origin was asked meanwhile is counted by the origin.
#
#   Bench::Proxy::Turn.new(row, seconds: 0.5, origin:).call(server)   # => {"rate" => 20_000.0, "cpu" => 0.4, "asked" => 10_000, ...}
module Bench
  class Proxy
    class Turn
      # @param row [Row]
      # @param seconds [Numeric]
      # @param origin [Servers::Running]
      def initialize(row, seconds:, origin:)
        @saturated = Servers::Saturated.new(row, seconds:)
        @origin = origin
      end

      # @param server [Servers::Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        before = asked
        figures = @saturated.call(server)
        {**figures, "asked" => asked - before - 1}
      end

      private

      # nginx's own count, with this request.
      def asked = Integer(Net::HTTP.get(URI("http://127.0.0.1:#{@origin.port}/count"))[/requests\s+\d+ \d+ (\d+)/, 1])
    end
  end
end
