# frozen_string_literal: true

# One measurement of the database benchmark, in a process of its own:
#
#   ruby child.rb neverblock find '{"layer":"raw","own":false,"connections":8,"fibers":100,"seconds":1,"place":{...}}'
#
# Prints one line of JSON.
require "json"
require_relative "../bench/meter"
require_relative "child/burst"
require_relative "child/executor"
require_relative "child/layers"
require_relative "child/long_short"
require_relative "child/mixed_load"
require_relative "child/sustained_load"
require_relative "child/work"

library, workload, options = ARGV
options = JSON.parse(options, symbolize_names: true)
executor = Measured::Executor.named(library, threads: options[:connections])

measure = lambda do
  layer = Measured::Layers.named(options.fetch(:layer)).open(options.fetch(:place), **options.slice(:own, :connections), fibers: executor ? executor.fibers? : false)
  figures = case workload
  when "same", "distinct" then Measured::MixedLoad.new(layer, executor, text: workload, **options.slice(:seconds, :warm)).call
  when "crowd" then Measured::Burst.new(Measured::Work.new(layer, "find"), executor, **options.slice(:fibers)).call
  when "long_short" then Measured::LongShort.new(layer, executor, **options.slice(:long, :short)).call
  else Measured::SustainedLoad.new(Measured::Work.new(layer, workload), executor, **options.slice(:fibers, :seconds, :warm)).call
  end
  figures[:memory] = Bench::Meter.memory
  layer.close
  figures
end

figures = executor ? executor.run(&measure) : measure.call
puts JSON.generate({**figures, libpq: PG.library_version})
