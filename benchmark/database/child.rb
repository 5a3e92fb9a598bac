# frozen_string_literal: true

# One measurement of the database benchmark, in a process of its own:
#
#   ruby child.rb neverblock find '{"layer":"raw","own":false,"connections":8,"fibers":100,"seconds":1,"place":{...}}'
#
# Prints one line of JSON.
require "json"
require_relative "../bench/meter"
require_relative "child/closed"
require_relative "child/company"
require_relative "child/crowd"
require_relative "child/long_short"
require_relative "child/means"
require_relative "child/work"

library, workload, options = ARGV
options = JSON.parse(options, symbolize_names: true)
layers = {"raw" => :Raw, "active_record" => :ActiveRecordLayer, "sequel" => :SequelLayer}
means = Measured::Means.named(library, threads: options[:connections])
name = options.fetch(:layer)
require_relative "child/#{name}"

measure = lambda do
  layer = Measured.const_get(layers.fetch(name)).open(options.fetch(:place), **options.slice(:own, :connections), fibers: means ? means.fibers? : false)
  figures = case workload
  when "same", "distinct" then Measured::Company.new(layer, means, text: workload, **options.slice(:seconds, :warm)).call
  when "crowd" then Measured::Crowd.new(Measured::Work.new(layer, "find"), means, **options.slice(:fibers)).call
  when "long_short" then Measured::LongShort.new(layer, means, **options.slice(:long, :short)).call
  else Measured::Closed.new(Measured::Work.new(layer, workload), means, **options.slice(:fibers, :seconds, :warm)).call
  end
  figures[:memory] = Bench::Meter.memory
  layer.close
  figures
end

figures = means ? means.run(&measure) : measure.call
puts JSON.generate({**figures, libpq: PG.library_version})
