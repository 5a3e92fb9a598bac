# frozen_string_literal: true

# A row of the mysql benchmark: the repeated operation, the round trip, the number of fibers.
#
#   row = Bench::Mysql::ROWS.find { |candidate| candidate.id == "find_1ms_1000" }
#   row.title      # => "a row by its key, 1 ms, 1000 fibers"
module Bench
  class Mysql
    SLEEPS = 10 # of a second, at once

    Row = Data.define(:work, :round_trip, :fibers) do
      # @return [String] one word
      def id = sleeps? ? work : [work, "#{milliseconds}ms", *fibers].join("_")

      # @return [String] rows of one group are measured in turn
      def group = sleeps? ? WORKS.fetch(work) : "#{WORKS.fetch(work)}, #{milliseconds} ms"

      # @return [String]
      def title = [group, *("#{fibers} fibers" if fibers)].join(", ")

      # @return [Boolean] whether it is statements that wait on the server
      def sleeps? = work == "sleeps"

      # Threads are as many as their connections, whatever the number of fibers.
      # @param contestant [Database::Contestant]
      # @return [Row] what is measured with it
      def for(contestant) = contestant.fibers? ? self : with(fibers: nil)

      # @return [Boolean] whether --quick has it
      def quick? = sleeps? || (fibers == 1000 && round_trip > 0 && work != "select_1") || id == "find_0ms_100"

      private

      def milliseconds = format("%g", round_trip * 1000)
    end

    WORKS = {
      "select_1" => "`select 1`",
      "find" => "a row by its key",
      "transaction_of_three" => "a transaction of three statements, with its begin and commit five",
      "sleeps" => "#{SLEEPS} × `select sleep(1)` at once"
    }.freeze

    ROWS = [
      *%w[select_1 find transaction_of_three].product([0, 0.001], [10, 100, 1000]).map { |work, round_trip, fibers| Row.new(work:, round_trip:, fibers:) },
      Row.new(work: "sleeps", round_trip: 0, fibers: nil)
    ].freeze
  end
end
