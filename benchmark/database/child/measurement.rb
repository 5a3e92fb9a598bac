# frozen_string_literal: true

# One measurement with a database in a process of its own, by the command line of a child: `LIBRARY WORKLOAD JSON`.
#
#   Measured::Measurement.run(ARGV) { |layer, executor, workload, options| {operations: 1_000, wall: 0.3} }
#
# Prints the figures, and the memory, as one line of JSON.
require "json"
require_relative "../../bench/meter"
require_relative "executor"
require_relative "layers"

module Measured
  module Measurement
    # @param arguments [Array<String>]
    # @param layer [String, nil] of Layers; nil: the options say it
    # @yieldparam layer [Object] open
    # @yieldparam executor [Object, nil] of Executor, running
    # @yieldparam workload [String]
    # @yieldparam options [Hash{Symbol=>Object}]
    # @yieldreturn [Hash{Symbol=>Numeric}] figures
    # @return [void]
    def self.run(arguments, layer: nil)
      library, workload, options = arguments
      options = JSON.parse(options, symbolize_names: true)
      executor = Executor.named(library, threads: options[:connections])
      measure = lambda do
        opened = Layers.named(layer || options.fetch(:layer)).open(options.fetch(:place), **options.slice(:own, :connections), fibers: executor ? executor.fibers? : false)
        figures = {**yield(opened, executor, workload, options), memory: Bench::Meter.memory}
        opened.close
        figures
      end
      figures = executor ? executor.run(&measure) : measure.call
      puts JSON.generate({**figures, libpq: (PG.library_version if defined?(PG))}.compact)
    end
  end
end
