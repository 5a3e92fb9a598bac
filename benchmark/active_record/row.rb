# frozen_string_literal: true

# A row of the active_record benchmark: a workload at a distance, or a number of connections.
#
#   Bench::ActiveRecord::ROWS.first.id      # => "very_light_0ms"
require_relative "../database/contestant"
require_relative "workloads"

module Bench
  class ActiveRecord
    Row = Data.define(:work, :round_trip, :connections) do
      def initialize(work:, round_trip: 0, connections: nil) = super

      # @return [String] one word
      def id = connections ? "connections_#{connections}" : "#{work}_#{milliseconds}ms"

      # @return [String]
      def title = connections ? "#{connections} connections" : "#{work.tr("_", " ")}: #{Measured::Workloads::NAMES.fetch(work)}, round trip #{milliseconds} ms"

      # @return [Array<Database::Contestant>]
      def contestants
        return [Database::Contestant.ours(connections), Database::Contestant.pool(connections, "#e67e22")] if connections
        [Database::Contestant.ours(8), Database::Contestant.pool(8, "#e67e22"), Database::Contestant.pool(32, "#f1c40f"),
          Database::Contestant.threads(8, "#7f8c8d"), Database::Contestant.blocking]
      end

      # @return [Boolean] whether --quick has it
      def quick? = connections ? connections >= 8 : round_trip > 0

      # @return [Integer] seconds that the sleeps take if nothing else does
      def waves = ActiveRecord::SLEEPS.ceildiv(connections)

      def milliseconds = format("%g", round_trip * 1000)
    end

    ROWS = [
      *[0, 0.001].product(Measured::Workloads::NAMES.keys).map { |round_trip, work| Row.new(work:, round_trip:) },
      *[2, 4, 8, 16, 32].map { |connections| Row.new(work: "connections", connections:) }
    ].freeze
  end
end
