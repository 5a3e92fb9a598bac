# frozen_string_literal: true

# What a field of a table shows of a result, by the name of the figure in its samples.
#
#   Bench::Figures.time("p99").call(result)            # => "1.29 ms", the median over the rounds
#   Bench::Figures.time_each("cpu").call(result)       # => "410 ns", of one operation
#   Bench::Figures.steady("rate").call(result)         # => "2000 ±1 %", with the median deviation
require_relative "statistics"
require_relative "units"

module Bench
  module Figures
    NONE = "–" # what could not be measured
    NAMED_CALLS = 3 # system calls that are named

    module_function

    # @param name [String] of a figure in seconds
    # @return [Proc]
    def time(name) = ->(result) { result.median(name)&.then { |seconds| Units.time(seconds) } || NONE }

    # Of one operation.
    def time_each(name) = ->(result) { result.per_operation(name)&.then { |seconds| Units.time(seconds) } || NONE }

    # @param name [String] of a figure in seconds, which can be compared by eye
    def seconds(name) = ->(result) { format("%.2f s", result.median(name)) }

    # A page that was there already may count as less than nothing.
    def bytes(name) = ->(result) { Units.bytes([result.median(name), 0].max) }

    def number(name) = ->(result) { result.median(name).round.to_s }

    # A count, of one operation; empty where it was not counted.
    def count_each(name) = ->(result) { result.per_operation(name)&.then { |number| Units.count(number) } }

    # With the median deviation.
    def steady(name)
      lambda do |result|
        spread = Statistics.spread(result.samples.map { |sample| sample[name] })
        "#{result.median(name).round} ±#{(spread * 100).round} %"
      end
    end

    # System calls of one operation, in all, then the most frequent; empty where they were not counted.
    def system_calls
      lambda do |result|
        calls = result.latest("system_calls") or next
        most = calls.max_by(NAMED_CALLS, &:last).map { |name, number| "#{name} #{Units.count(number)}" }
        calls.empty? ? "0" : "#{Units.count(calls.values.sum)} (#{most.join(", ")})"
      end
    end
  end
end
