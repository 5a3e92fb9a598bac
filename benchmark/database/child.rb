# frozen_string_literal: true

# One measurement of the database benchmark, in a process of its own:
#
#   ruby child.rb neverblock find '{"layer":"raw","own":false,"connections":8,"fibers":100,"seconds":1,"place":{...}}'
#
# Prints one line of JSON.
%w[burst long_short measurement mixed_load sleeps sustained_load work].each { |file| require_relative "child/#{file}" }

Measured::Measurement.run(ARGV) do |layer, executor, workload, options|
  case workload
  when "same", "distinct" then Measured::MixedLoad.new(layer, executor, text: workload, **options.slice(:seconds, :warm)).call
  when "crowd" then Measured::Burst.new(Measured::Work.new(layer, "find"), executor, **options.slice(:fibers)).call
  when "sleeps" then Measured::Sleeps.new(layer, executor, **options.slice(:text, :sleeps)).call
  when "long_short" then Measured::LongShort.new(layer, executor, **options.slice(:long, :short)).call
  else Measured::SustainedLoad.new(Measured::Work.new(layer, workload), executor, **options.slice(:fibers, :seconds, :warm)).call
  end
end
