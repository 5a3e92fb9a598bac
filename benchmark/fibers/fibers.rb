# frozen_string_literal: true

# bin/bench fibers: fibers against threads, created and parked apart, time and
# memory, all kept reachable; the founding scene A4 of 2008.
#
#   Bench::Fibers.new(options).run      # => Bench::Fibers::Report
require_relative "../bench/benchmark"
require_relative "report"

module Bench
  class Fibers
    include Benchmark

    CONTESTANTS = {
      "created" => ["fibers", "neverblock epoll", "threads"],
      "parked" => ["fibers", "neverblock epoll", "async epoll", "threads"]
    }.freeze
    COUNTS = [100, 1_000, 3_070, 10_000, 30_000, 100_000].freeze # 3,070 is where threads ended in 2008
    MOST_THREADS = 30_000 # beyond, only the seconds grow
    MOST_QUICK = 10_000

    Row = Data.define(:workload, :count) do
      def id = "#{count} #{workload}"

      def title = id
    end

    ROWS = CONTESTANTS.keys.product(COUNTS).map { |workload, count| Row.new(workload, count) }.freeze

    # @return [Array<Row>] fibers not yet started need no memory mapping
    def rows = super.reject { |row| row.workload == "parked" && Machine.too_many_fibers(row.count) }

    private

    def quick?(row) = row.count <= MOST_QUICK

    def contestants(row)
      CONTESTANTS.fetch(row.workload).map { |name| Contestant.named(name) }.reject { |contestant| contestant.library == "threads" && row.count > MOST_THREADS }
    end

    def sample(_place, row, contestant) = ChildProcess.new("fibers/child.rb", contestant, row.workload, operations: row.count).measure

    def notes(_place) = COUNTS.filter_map { |count| Machine.too_many_fibers(count)&.then { |reason| "#{count} parked: #{reason}" } }
  end
end
