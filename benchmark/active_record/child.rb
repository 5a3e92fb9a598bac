# frozen_string_literal: true

# One measurement of the active_record benchmark, in a process of its own:
#
#   ruby child.rb neverblock heavy '{"own":true,"connections":8,"fibers":100,"times":1000,"place":{...}}'
#   ruby child.rb neverblock connections '{"own":true,"connections":2,"fibers":100,"times":5000,"sleeps":20,"place":{...}}'
#
# Prints one line of JSON.
require "json"
require_relative "../bench/meter"
require_relative "../database/child/active_record"
require_relative "../database/child/clock"
require_relative "../database/child/executor"
require_relative "../database/child/closed_loop"
require_relative "workloads"
require_relative "entry"

WARM = 2 # times as many before, until YJIT has compiled what there is: as in a process that serves

library, workload, options = ARGV
options = JSON.parse(options, symbolize_names: true)
executor = Measured::Executor.named(library, threads: options[:connections])
times = options.fetch(:times)

timed = lambda do |many, count, &block|
  GC.start
  used = Measured::Clock.used
  many.call(count, &block)
  {operations: count, **Measured::Clock.since(used)}
end

measure = lambda do
  layer = Measured::ActiveRecordLayer.open(options.fetch(:place), **options.slice(:own, :connections), fibers: executor ? executor.fibers? : false)
  many = Measured::ClosedLoop.new(executor, fibers: options[:fibers])
  if workload == "connections"
    many.call(times / 2) { layer.select_1 } # connections are open then, and code is warm
    figures = timed.call(many, times) { layer.select_1 }
    sleeps = timed.call(Measured::ClosedLoop.new(executor, fibers: options.fetch(:sleeps)), options.fetch(:sleeps)) { layer.slow("select pg_sleep(1)") }
    figures[:slept] = sleeps[:wall]
  else
    scene = Measured::Workloads.new
    many.call(times * WARM) { |number| scene.call(workload, number) }
    scene.begin_anew
    before = scene.count
    figures = timed.call(many, times) { |number| scene.call(workload, number) }
    created = scene.count - before
    raise "#{created} entries were created where #{scene.creates(workload) * times} should have been" unless created == scene.creates(workload) * times
  end
  figures[:memory] = Bench::Meter.memory
  layer.close
  figures
end

figures = executor ? executor.run(&measure) : measure.call
puts JSON.generate({**figures, libpq: PG.library_version})
