# frozen_string_literal: true

# bin/bench offload_sizes: from which size on it pays to hand core's long operations over to a thread.
#
# In place an operation holds the loop. On a thread it costs a hand-over, there and back, and the thread takes turns with
# the loop at the interpreter's lock. The limits that follow from it are in lib/neverblock/patches/zlib.rb.
#
#   Bench::OffloadSizes.new(options).run      # => Bench::Report
require_relative "../bench/benchmark"
require_relative "operations"

module Bench
  class OffloadSizes
    include Benchmark

    Row = Data.define(:name, :size) do
      def id = size.zero? ? name : "#{name}_#{size / 1_024}KiB"

      def title = [Measured::Operations::ALL.fetch(name).title, *(Units.bytes(size).sub(/\.0+ /, " ") unless size.zero?)].join(" ")

      def quick? = size < 1 << 20
    end

    ROWS = Measured::Operations::ALL.flat_map { |name, operation| operation.sizes.map { |size| Row.new(name, size) } }.freeze
    CONTESTANTS = [Contestant.new("on a thread", "neverblock", {}, "#2471a3"), Contestant.new("in place", "neverblock", {}, "#c0392b")].freeze
    SECONDS = 0.02
    QUICK_SECONDS = 0.01
    TABLES = {"Processor time of each" => Figures.time_each("cpu")}.freeze
    RATIOS = {"Processor time" => "cpu"}.freeze

    private

    def sample(_place, row, contestant)
      ChildProcess.new("offload_sizes/child.rb", contestant, row.name, size: row.size, place: contestant.name, seconds: @seconds).measure
    end
  end
end
