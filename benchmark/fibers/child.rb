# frozen_string_literal: true

# One measurement of the fibers benchmark, in a process of its own: makes so many,
# keeps all reachable, and prints the time and the memory.
#
#   ruby child.rb fibers created '{"operations":10000}'
#   ruby child.rb neverblock parked '{"operations":10000}'
#
# "created" is until the last one exists; "parked", until all have begun and wait.
# (A thread begins by itself, and so does an async task: neither is ever only created.)
require "json"
require_relative "../bench/meter"

library, workload, options = ARGV
count = JSON.parse(options).fetch("operations")
queue = Queue.new
parked = workload == "parked"
meter = Bench::Meter.new
memory = nil
kept = nil

measure = lambda do |&make|
  memory = Bench::Meter.memory
  meter.measure(count, &make)
  meter.note(memory: (Bench::Meter.memory - memory).fdiv(count))
  puts JSON.generate(meter.reading)
  $stdout.flush
  # Neither joining nor ending so many is measured.
  exit!(0)
end

case library
when "fibers"
  measure.call do
    kept = Array.new(count) { Fiber.new { Fiber.yield } }
    kept.each(&:resume) if parked
  end
when "threads"
  measure.call do
    kept = []
    begin
      kept << Thread.new { queue.pop } while kept.size < count
    rescue ThreadError => error
      abort "only #{kept.size} threads could be started: #{error.message}"
    end
    sleep(0.001) until !parked || queue.num_waiting == count
  end
when "neverblock"
  require "neverblock"
  NeverBlock.run do
    measure.call do
      kept = Array.new(count) { NeverBlock.spawn { queue.pop } }
      NeverBlock.pass until !parked || queue.num_waiting == count
    end
  end
when "async"
  require "async"
  Async do |task|
    measure.call { kept = Array.new(count) { task.async { queue.pop } } }
  end
end
