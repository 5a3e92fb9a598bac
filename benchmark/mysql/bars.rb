# frozen_string_literal: true

# The bars of the mysql benchmark: statements that wait do so together, and 32 shared connections are no slower than
# the stock adapter in 32 threads.
#
#   Bench::Mysql::Bars.new(results).all.map(&:title)
require_relative "../database/bars"
require_relative "contestants"
require_relative "row"

module Bench
  class Mysql
    class Bars < Database::Bars
      OURS = "neverblock trilogy 32"
      STOCK = "threads trilogy 32"
      TOGETHER = ["neverblock trilogy 12", "neverblock mysql2 12"].freeze
      SLEPT = 1.3 # seconds
      RATE = 1.0 # times the stock adapter's
      COST = 1.05 # times its processor time

      # @return [Array<Bar>]
      def all = [*slept, *finds]

      private

      def slept
        TOGETHER.filter_map do |name|
          mine = of("sleeps", name) or next
          Bar.at_most("#{SLEEPS} × `select sleep(1)`: #{name}", mine.median("wall"), SLEPT, unit: " s",
            beside: mine.failure || "#{mine.median("backends").round} connections#{disturbed(mine)}")
        end
      end

      def finds
        mine, stock = of("find_1ms_1000", OURS), of("find_1ms", STOCK)
        return [] unless mine && stock
        [rate("find_1ms", mine, STOCK, RATE, "1 ms"),
          Bar.at_most("find, 1 ms, 1,000 fibers: processor time beside #{STOCK}", ratio(mine, stock, :per_operation, "cpu"), COST, unit: " ×",
            beside: beside(mine, stock) { [mine, stock].map { |result| Units.time(result.per_operation("cpu")) }.join(" and ") })]
      end
    end
  end
end
