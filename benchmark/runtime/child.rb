# frozen_string_literal: true

# One measurement of the runtime benchmark, in a process of its own:
#
#   ruby child.rb neverblock queue_hop '{"seconds":0.2}'      # as many operations as take so long
#   ruby child.rb neverblock parked '{"operations":20000}'    # exactly so many
#
# Prints one line of JSON.
require "json"
require_relative "../bench/meter"

library, workload, options = ARGV
options = JSON.parse(options)
require_relative "workloads/#{library}"

meter = Bench::Meter.new
workloads = Workloads.const_get({"neverblock" => :NeverBlock, "async" => :Async, "threads" => :Threads}.fetch(library)).new(meter)
engine = workloads.engine

# Doubles the operations until they take long enough to be extrapolated from, which
# also warms everything up.
calibrate = lambda do |seconds|
  count = 200
  loop do
    workloads.public_send(workload, count)
    break if meter.reading[:wall] > seconds / 10
    count *= 2
  end
  (count * seconds / meter.reading[:wall] / 100).ceil * 100
end

count = options["operations"] || calibrate.call(options.fetch("seconds"))
workloads.public_send(workload, count)
puts JSON.generate(meter.reading.merge(engine:))
