# frozen_string_literal: true

# How soon a thousand requests can be answered at best: a connection sleeps for one of them at a time, and a request gets to the
# database when the processor time of those before it is spent.
#
#   Bench::RailsWorkloads::Limit.seconds(row, connections: 12, cpu: 0.0005)      # => 9.04, for a hundred sleeps: nine waves
module Bench
  class RailsWorkloads < Rails
    module Limit
      module_function

      # @param row [Row]
      # @param connections [Integer]
      # @param cpu [Float] seconds of processor time for each request
      # @return [Float]
      def seconds(row, connections:, cpu:)
        free = Array.new([connections, row.concurrency].min, 0.0)
        row.sleeps.times do |number|
          soonest = free.index(free.min)
          free[soonest] = [free[soonest], number * row.every * cpu].max + 1
        end
        [free.max, REQUESTS * cpu].max
      end

      # @return [Boolean] whether waiting, not computing, determines the limit
      def sleeping?(row, connections:, cpu:) = row.sleeps.fdiv([connections, row.concurrency].min) > REQUESTS * cpu
    end
  end
end
