# frozen_string_literal: true

# A number of statements that each only wait on the server, all asked for at the same time: how long until the last is done.
#
#   Measured::Sleeps.new(layer, executor, text: "select sleep(1)", sleeps: 10).call   # => {operations: 10, wall: 1.01, ...}
require_relative "clock"
require_relative "closed_loop"

module Measured
  class Sleeps
    WARM = 20 # times `select 1` for each, before anything counts

    # @param layer [Object] open
    # @param executor [Object] of Executor, running
    # @param text [String] of the statement
    # @param sleeps [Integer]
    def initialize(layer, executor, text:, sleeps:)
      @layer = layer
      @many = ClosedLoop.new(executor, fibers: sleeps)
      @text = text
      @sleeps = sleeps
    end

    # @return [Hash{Symbol=>Numeric}]
    def call
      @many.call(@sleeps * WARM) { @layer.select_1 }
      GC.start
      used = Clock.used
      @many.call(@sleeps) { @layer.slow(@text) }
      {operations: @sleeps, **Clock.since(used)}
    end
  end
end
