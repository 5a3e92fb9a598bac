# frozen_string_literal: true

# bin/bench fibers: fibers against threads, created and parked apart, time and
# memory, all kept reachable; the founding scene A4 of 2008.
#
#   Bench::Fibers.new(options).run      # => Bench::FibersReport
require_relative "../bench/cell"
require_relative "../bench/child_process"
require_relative "../bench/contestant"
require_relative "../bench/machine"
require_relative "../bench/rounds"
require_relative "fibers_report"

module Bench
  class Fibers
    SCRIPT = "fibers/child.rb"
    COUNTS = [100, 1_000, 3_070, 10_000, 30_000, 100_000].freeze # 3,070 is where threads ended in 2008
    CONTESTANTS = {
      "created" => ["fibers", "neverblock epoll", "threads"],
      "parked" => ["fibers", "neverblock epoll", "async epoll", "threads"]
    }.freeze
    MOST_THREADS = 30_000 # beyond, only the seconds grow
    MAPS_PER_FIBER = 2
    MAPS_BESIDE = 5_000

    # @param options [Options]
    def initialize(options)
      @options = options
    end

    # @return [FibersReport]
    def run
      cells = rows.flat_map { |workload, count| row(workload, count) }
      results = Rounds.measure(cells, rounds: @options.rounds)
      FibersReport.new(results:, rounds: @options.rounds, notes: refused.map { |count| refusal(count) })
    end

    private

    def rows
      wanted = CONTESTANTS.keys.product(COUNTS).select { |workload, count| @options.wants?(title(workload, count)) }
      wanted.reject { |workload, count| (workload == "parked" && refused.include?(count)) || (@options.quick? && count > 10_000) }
    end

    def title(workload, count) = "#{count} #{workload}"

    def row(workload, count)
      names = CONTESTANTS.fetch(workload).select { |name| @options.wants_contestant?(name) }
      contestants = names.map { |name| Contestant.named(name) }.reject { |contestant| contestant.library == "threads" && count > MOST_THREADS }
      contestants.map do |contestant|
        Cell.new(title(workload, count), contestant, workload:, count:) do
          ChildProcess.new(SCRIPT, contestant, workload, operations: count).measure
        end
      end
    end

    # Fibers not yet started need no mapping; parked ones need two each.
    def refused = COUNTS.select { |count| count * MAPS_PER_FIBER + MAPS_BESIDE > Machine.max_map_count }

    def refusal(count)
      "#{count} parked: left out, since vm.max_map_count is #{Machine.max_map_count} and " \
        "#{count * MAPS_PER_FIBER + MAPS_BESIDE} are needed. To have it measured: sudo sysctl vm.max_map_count=1048576"
    end
  end
end
