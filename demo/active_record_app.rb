# frozen_string_literal: true

# An Active Record program with many queries at once, of which each tenth sleeps in the database: a fiber for each, all on one
# thread, whatever the adapter.
#
#   ruby -Ilib demo/active_record_app.rb ADAPTER CONNECTIONS QUERIES SLEEP
#
# Prints "ready", begins when a line comes, and prints lines of JSON, the last one with "threads"; it ends when standard
# input is closed.
require "active_record"
require "json"
require "neverblock"

EACH = 10
adapter = ARGV.shift
connections, queries = Array.new(2) { Integer(ARGV.shift) }
sleeping = "select pg_sleep(#{Float(ARGV.shift)})::text"

require "neverblock/active_record" if adapter == "neverblock_postgresql"

ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
# Each adapter's own word for the same bound.
bound = {"postgresql" => :pool, "neverblock_postgresql" => :connections}.fetch(adapter)
ActiveRecord::Base.establish_connection({:adapter => adapter, :database => "postgres", bound => connections})

class Page < ActiveRecord::Base
end

threads = {}
fast = slow = 0
fast_after = 0.0
trouble = nil
started = nil
seconds = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) - started }
tell = ->(**more) { puts JSON.generate(fast:, slow:, fast_after:, seconds: seconds.call, trouble:, **more) }

query = lambda do |number|
  threads[Thread.current] = true
  if number % EACH == 0
    Page.with_connection { |connection| connection.select_value(sleeping) }
    slow += 1
  else
    title = Page.find(number).title
    raise "page #{number} brought #{title.inspect}" unless title == "page #{number}"
    fast += 1
    fast_after = seconds.call
  end
rescue => error
  trouble ||= "query #{number}: #{error.message} (#{error.class})"
end

$stdout.sync = true
NeverBlock.run { Page.find(1) } # as an app that has been asked before
puts "ready"
$stdin.gets
NeverBlock.run do |scope|
  started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  teller = scope.spawn { loop { sleep(0.05) && tell.call } }
  NeverBlock.concurrently(1..queries, limit: queries, &query)
  teller.cancel
end
tell.call(threads: threads.size)
$stdin.read
