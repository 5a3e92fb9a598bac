# frozen_string_literal: true

# A row of the cost benchmark: the repeated operation, its library, the round trip, the number of fibers.
#
#   row = Bench::Cost::ROWS.find { |candidate| candidate.id == "ar_find_0.5ms_30" }
#   row.title       # => "Active Record: a row by its key, 0.5 ms, 30 fibers"
require_relative "../active_record/workloads"
require_relative "../database/row"

module Bench
  class Cost
    Row = Data.define(:layer, :work, :round_trip, :fibers) do
      # @return [String] one word
      def id = [Cost::SHORT.fetch(layer), work, "#{milliseconds}ms", fibers].join("_")

      # @return [String] rows of one group are measured in the same processes
      def group = "#{Database::LAYERS.fetch(layer)}: #{Cost::WORKS.fetch(layer).fetch(work)}, #{milliseconds} ms"

      # @return [String]
      def title = "#{group}, #{fibers} fibers"

      # @return [Boolean] whether it is one of the workloads of 2008, which need their table as it was
      def founding? = Measured::Workloads::NAMES.key?(work)

      # @return [Boolean] whether --quick has it
      def quick? = %w[find transaction_of_three exec].include?(work) && [10, 100].include?(fibers)

      private

      def milliseconds = format("%g", round_trip * 1000)
    end

    SHORT = {"active_record" => "ar", "sequel" => "sequel", "raw" => "pg"}.freeze
    WORKS = {
      "active_record" => {
        **Database::WORKS.slice("select_1", "find"),
        "relation" => "a relation of 20 rows",
        "transaction_of_three" => "a transaction of three statements, with its begin and commit five",
        **Measured::Workloads::NAMES
      },
      "sequel" => Database::WORKS.slice("find"),
      "raw" => {"exec" => "`exec(\"select 1\")`"}
    }.freeze
    ROUND_TRIPS = [0, 0.0005].freeze
    FIBERS = [10, 30, 100, 1000].freeze

    ROWS = WORKS.flat_map { |layer, works|
      works.keys.product(ROUND_TRIPS, FIBERS).map { |work, round_trip, fibers| Row.new(layer:, work:, round_trip:, fibers:) }
    }.freeze
  end
end
