# frozen_string_literal: true

# One measurement of the active_record benchmark, in a process of its own:
#
#   ruby child.rb neverblock heavy '{"own":true,"connections":8,"fibers":100,"times":1000,"place":{...}}'
#   ruby child.rb neverblock connections '{"own":true,"connections":2,"fibers":100,"times":5000,"sleeps":20,"place":{...}}'
#
# Prints one line of JSON.
require_relative "../database/child/clock"
require_relative "../database/child/closed_loop"
require_relative "../database/child/measurement"
require_relative "workloads"

WARM = 2 # times as many before, until YJIT has compiled everything, as in a process that serves

timed = lambda do |many, count, &block|
  GC.start
  used = Measured::Clock.used
  many.call(count, &block)
  {operations: count, **Measured::Clock.since(used)}
end

connections = lambda do |layer, executor, many, times, sleeps|
  many.call(times / 2) { layer.select_1 } # connections are open then, and code is warm
  figures = timed.call(many, times) { layer.select_1 }
  slept = timed.call(Measured::ClosedLoop.new(executor, fibers: sleeps), sleeps) { layer.slow("select pg_sleep(1)") }
  {**figures, slept: slept[:wall]}
end

workloads = lambda do |workload, many, times|
  require_relative "entry"
  scene = Measured::Workloads.new
  many.call(times * WARM) { |number| scene.call(workload, number) }
  scene.begin_anew
  before = scene.count
  figures = timed.call(many, times) { |number| scene.call(workload, number) }
  created, wanted = scene.count - before, scene.creates(workload) * times
  raise "#{created} entries were created where #{wanted} should have been" unless created == wanted
  figures
end

Measured::Measurement.run(ARGV, layer: "active_record") do |layer, executor, workload, options|
  many = Measured::ClosedLoop.new(executor, fibers: options[:fibers])
  times = options.fetch(:times)
  (workload == "connections") ? connections.call(layer, executor, many, times, options.fetch(:sleeps)) : workloads.call(workload, many, times)
end
