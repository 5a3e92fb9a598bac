# frozen_string_literal: true

# A row of the database benchmark: the request, its library, the round trip, the number of fibers.
#
#   row = Bench::Database::Row.new(layer: "active_record", work: "find", round_trip: 0.001, fibers: 1000)
#   row.id          # => "active_record_find_1ms_1000"
#   row.group       # => "Active Record: a row by its key, round trip 1 ms"
module Bench
  class Database
    Row = Data.define(:layer, :work, :round_trip, :fibers, :long, :short) do
      def initialize(layer:, work:, round_trip: 0, fibers: nil, long: nil, short: nil) = super

      # @return [String] one word
      def id = [layer, work, *(long ? [long, short] : ["#{milliseconds}ms", *fibers])].join("_")

      # @return [String] rows of one group are measured in turn
      def group = long ? "#{title}: #{long} long" : "#{title}, round trip #{milliseconds} ms"

      # @return [String] the library and the request
      def title = "#{LAYERS.fetch(layer)}: #{WORKS.fetch(work)}"

      # @return [Symbol] how it is measured
      def kind
        return :long_short if long
        return :burst if work == "crowd"
        MIXED.include?(work) ? :mixed : :closed
      end

      def milliseconds = format("%g", round_trip * 1000)
    end

    LAYERS = {"raw" => "pg", "active_record" => "Active Record", "sequel" => "Sequel"}.freeze
    WORKS = {
      "select_1" => "`select 1`",
      "find" => "a row by its key",
      "transactions" => "a row by its key, one in ten a transaction of four statements",
      "slow" => "a row by its key, one in a hundred a statement of 50 ms",
      "same" => "a row by its key at 60 % of the peak, beside 1 % that take 50 ms, always the same text",
      "distinct" => "a row by its key at 60 % of the peak, beside 1 % that take 50 ms, never the same text",
      "crowd" => "a row by its key, for all at once",
      "long_short" => "long statements, 50 ms each, with short ones after each"
    }.freeze
    MIXED = %w[same distinct].freeze
  end
end
