# frozen_string_literal: true

# Figures as people read them.
#
#   Bench::Units.time(4.1e-7)      # => "410 ns"
#   Bench::Units.bytes(15_538)     # => "15.2 KiB"
#   Bench::Units.count(2.0)        # => "2"
module Bench
  module Units
    TIMES = {1 => "s", 1e-3 => "ms", 1e-6 => "µs", 1e-9 => "ns"}.freeze
    BYTES = {1 << 30 => "GiB", 1 << 20 => "MiB", 1 << 10 => "KiB", 1 => "B"}.freeze

    module_function

    # @param seconds [Float]
    # @return [String]
    def time(seconds) = scaled(seconds, TIMES)

    # @param bytes [Numeric]
    # @return [String]
    def bytes(bytes) = scaled(bytes, BYTES)

    # @param number [Float] a count per operation, whose last digits are chance
    # @return [String]
    def count(number)
      return "0" if number.abs < 0.005
      (number < 10) ? format("%.2f", number).sub(/\.?0+\z/, "") : number.round.to_s
    end

    # Three digits that mean something, no more.
    def scaled(number, units)
      factor, unit = units.find { |least, _| number >= least } || units.to_a.last
      scaled = number / factor.to_f
      decimals = [100, 10].count { |least| scaled < least }
      "#{format("%.#{decimals}f", scaled)} #{unit}"
    end
  end
end
