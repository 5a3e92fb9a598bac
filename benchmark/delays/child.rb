# frozen_string_literal: true

# A client of the delays benchmark, in a process of its own:
#
#   ruby child.rb neverblock requests '{"port":8080,"delay":100,"requests":1000,"client":0}'
#
# Warms up, says "ready", waits for a line, makes all requests with stock Net::HTTP,
# and prints its figures as one line of JSON.
require "json"
require "net/http"
require_relative "../bench/meter"

library, _, options = ARGV
options = JSON.parse(options)
WARM_UP = 50

# How each library makes so many requests. The pool of threads is there beforehand;
# the fibers are not, each request gets a new one.
EXECUTORS = {
  "blocking" => ->(count, get) { count.times(&get) },
  "threads" => lambda { |count, get|
    count.times { POOL_WORK << get }
    count.times { POOL_DONE.pop.then { |error| raise error if error } }
  },
  "neverblock" => ->(count, get) { NeverBlock.run { |scope| count.times { scope.spawn(&get) } } },
  "async" => ->(count, get) { Async { |task| Array.new(count) { task.async(&get) }.each(&:wait) }.wait }
}.freeze

case library
when "neverblock" then require "neverblock"
when "async" then require "async"
when "threads"
  POOL_WORK = Queue.new
  POOL_DONE = Queue.new
  options.fetch("pool").times do
    Thread.new do
      while (get = POOL_WORK.pop)
        error = begin
          get.call
          nil
        rescue => raised
          raised
        end
        POOL_DONE << error
      end
    end
  end
end

ask = lambda do |delay|
  uri = URI("http://127.0.0.1:#{options.fetch("port")}/#{delay}?client=#{options.fetch("client")}")
  lambda do |*|
    body = Net::HTTP.get(uri)
    body == "ok" or raise "the back end answered #{body.inspect}"
  end
end

clock = ->(id) { Process.clock_gettime(id) }
executor = EXECUTORS.fetch(library)
executor.call(WARM_UP, ask.call(0))
request = ask.call(options.fetch("delay"))
count = options.fetch("requests")
$stdout.sync = true
puts "ready"
$stdin.gets

meter = Bench::Meter.new
cpu_before = nil
started = nil
meter.measure(count) do
  cpu_before = clock.call(Process::CLOCK_PROCESS_CPUTIME_ID)
  started = clock.call(Process::CLOCK_MONOTONIC)
  executor.call(count, request)
end
puts JSON.generate(meter.reading.merge(cpu_before:, started:, ended: started + meter.reading[:wall]))
