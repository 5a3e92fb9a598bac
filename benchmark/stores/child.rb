# frozen_string_literal: true

# One measurement of the stores benchmark, in a process of its own:
#
#   ruby child.rb neverblock redis '{"work":"get","operations":20000,"connections":32,"fibers":100,"place":{...}}'
#
# Prints one line of JSON.
require "json"
require_relative "../bench/meter"
require_relative "../database/child/closed_loop"
require_relative "../database/child/executor"
require_relative "child/documents"
%w[memcached redis postgres mariadb].each { |store| autoload(store.capitalize, File.join(__dir__, "child", "#{store}.rb")) }

library, store, options = ARGV
options = JSON.parse(options, symbolize_names: true)
executor = Measured::Executor.named(library, threads: options[:connections])
measure = lambda do
  store = Object.const_get(store.capitalize).open(options.fetch(:place), library:, connections: options[:connections])
  documents = Documents.new(store, options.fetch(:work), options.fetch(:operations))
  documents.prepare
  fibers = (library == "neverblock") ? options.fetch(:fibers) : options[:connections]
  loop = Measured::ClosedLoop.new(executor, fibers:)
  loop.call(fibers * 2) { |number| documents.warm(number) } # until connections are open
  meter = Bench::Meter.new
  meter.measure(options[:operations]) { loop.call(options[:operations]) { |number| documents.call(number) } }
  documents.check
  store.close
  {**meter.reading, rate: options[:operations] / meter.reading.fetch(:wall), memory: Bench::Meter.memory}
end
puts JSON.generate(executor ? executor.run(&measure) : measure.call)
