# frozen_string_literal: true

# Fibers that all ask a cache for a URL that is not stored, in a process of their own:
#
#   ruby herd.rb memory /report '{"clients":10000,"folder":"/tmp/store"}'
#
# Twice, for two URLs: the first time, Ruby allocates stacks for so many fibers, which is no part of the figures but for
# held_first. The app takes a second. A client's time is from the end of the first such second to the end of its body.
require "json"
require "neverblock"
require_relative "app"
require_relative "hold"
require_relative "kinds"
require_relative "../bench/meter"
require_relative "../database/child/clock"

SPAWNED = 100 # between two turns of others
kind, path, options = ARGV
options = JSON.parse(options, symbolize_names: true)
clients = options.fetch(:clients)
app = Measured::CachedApp.new
cache = Measured::Kinds.wrap(kind, app, options.fetch(:folder))
env = {"REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => path, "QUERY_STRING" => "", "HTTP_HOST" => "example.org", "SERVER_NAME" => "example.org",
       "SERVER_PORT" => "80", "SERVER_PROTOCOL" => "HTTP/1.1", "rack.url_scheme" => "http", "rack.errors" => $stderr, "REMOTE_ADDR" => "192.0.2.1", "HTTP_ACCEPT" => "*/*"}

ask = lambda do |query|
  status, _, body = cache.call(env.merge("QUERY_STRING" => query))
  bytes = +""
  body.each { |part| bytes << part }
  body.close if body.respond_to?(:close)
  status == 200 && bytes == Measured::CachedApp::REPORT
end

crowd = lambda do |scope, query|
  app.forget
  hold = Measured::Hold.new
  watch = scope.spawn { hold.watch }
  right = 0
  times = []
  before = Measured::Clock.used
  tasks = Array.new(clients) do |number|
    NeverBlock.pass if number % SPAWNED == 0
    scope.spawn do
      right += 1 if ask.call(query)
      times << Measured::Clock.now
    end
  end
  tasks.each(&:join)
  used = Measured::Clock.since(before)
  hold.stop
  waits = times.map { |time| [time - app.reported_at, 0.0].max }
  {operations: clients, right:, calls: app.calls, longest: waits.max, **watch.value, **used.slice(:wall, :cpu, :objects), **Measured::Clock.spread(waits)}
end

memory = Bench::Meter.memory
NeverBlock.run do |scope|
  first = crowd.call(scope, "first")
  GC.start
  figures = crowd.call(scope, "second")
  puts JSON.generate({**figures, held_first: first[:held], memory_each: (figures[:memory_peak] - memory).fdiv(clients)})
end
