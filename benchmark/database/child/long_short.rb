# frozen_string_literal: true

# The founding table of 2008: so many long statements, each followed by so many short ones, one after another or by a hundred
# fibers; and what the process itself used meanwhile.
#
#   Measured::LongShort.new(layer, executor, long: 10, short: 50).call    # => {wall: 0.06, cpu: 0.01, operations: 510}
require_relative "clock"
require_relative "closed_loop"
require_relative "work"

module Measured
  class LongShort
    FIBERS = 100
    WARM = {slow: 12, find: 200}.freeze # connections are open then, and code is warm

    # @param layer [Object]
    # @param executor [Object, nil] of Executor, running; nil: one statement after the other
    # @param long [Integer]
    # @param short [Integer] after each long one
    def initialize(layer, executor, long:, short:)
      @find = Work.new(layer, "find")
      @layer = layer
      @loop = ClosedLoop.new(executor, fibers: FIBERS)
      @statements = Array.new(long) { [:slow, *Array.new(short, :find)] }.flatten
    end

    # @return [Hash{Symbol=>Numeric}]
    def call
      all(WARM.flat_map { |statement, count| [statement] * count })
      GC.start
      used = Clock.used
      all(@statements)
      {operations: @statements.size, **Clock.since(used)}
    end

    private

    def all(statements) = @loop.call(statements.size) { |number| one(statements[number], number) }

    def one(statement, number) = (statement == :slow) ? @layer.slow(Work.slow) : @find.call(number)
  end
end
