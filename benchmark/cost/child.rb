# frozen_string_literal: true

# One of the processes of the cost benchmark:
#
#   ruby child.rb neverblock find '{"layer":"active_record","own":true,"connections":8,"place":{...}}'
#
# Says "ready", and answers each line of JSON, such as {"operations":1000,"fibers":10}, with one, until there is none.
require "json"
require_relative "../database/child/executor"
require_relative "../database/child/layers"
require_relative "samples"

library, work, options = ARGV
options = JSON.parse(options, symbolize_names: true)
opening = Measured::Layers.named(options.fetch(:layer))
require_relative "../active_record/entry" if options.fetch(:layer) == "active_record"

executor = Measured::Executor.named(library)
executor.run do
  layer = opening.open(options.fetch(:place), **options.slice(:own, :connections), fibers: true)
  samples = Measured::Samples.new(layer, executor, work)
  $stdout.sync = true
  puts "ready"
  while (line = $stdin.gets)
    puts JSON.generate(samples.call(**JSON.parse(line, symbolize_names: true)))
  end
  layer.close
end
