# frozen_string_literal: true

# A row of the rails_workloads benchmark: a thousand requests, so many at once, of which one in so many sleeps for a second.
#
#   row = Bench::RailsWorkloads::Row.new(every: 10, concurrency: 200)
#   row.id        # => "one_in_10_200"
#   row.sleeps    # => 100
module Bench
  class RailsWorkloads < Rails
    Row = Data.define(:every, :concurrency) do
      # @return [String] one word
      def id = "one_in_#{every}_#{concurrency}"

      # @return [String]
      def title = "one in #{every} sleeps, #{concurrency} at once"

      # @return [Symbol] how it is measured
      def measure = :workload

      # @return [Integer] seconds of sleep in all
      def sleeps = REQUESTS.ceildiv(every)

      # @return [Boolean] whether it is one of the workloads, not only for the graph
      def judged? = CONCURRENCY.include?(concurrency)

      # @return [Boolean] whether --quick has it
      def quick? = [[100, 200], [10, 200], [10, 1000]].include?([every, concurrency])
    end
  end
end
