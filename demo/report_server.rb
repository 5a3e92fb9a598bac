# frozen_string_literal: true

# A Rack app with one report that takes its time, since ten computations at most run at once, as with a database of ten
# connections: with the cache in front, or without.
#
#   ruby -Ilib demo/report_server.rb --delay 2.0 --cache
#
#   GET /report    after the delay: the report; its first line has the number of the call of the app that made it
#   GET /stats     at once, as JSON: how often the app was asked for the report
require "json"
require "neverblock/cache"
require "neverblock/server"
require "optparse"
require_relative "report"

delay = 1.0
cache = false
OptionParser.new do |parser|
  parser.banner = "Usage: ruby -Ilib demo/report_server.rb [--delay SECONDS] [--cache]"
  parser.on("--delay SECONDS", Float, "how long the report takes (1.0)") { |seconds| delay = seconds }
  parser.on("--cache", "with NeverBlock::Cache in front of the app") { cache = true }
  parser.on("--child", "end when standard input is closed")
  parser.on("--port PORT", Integer, "port on 127.0.0.1, 0 for any (0)")
end.parse!

calls = 0
connections = NeverBlock::Semaphore.new(Demo::Report::CONNECTIONS)
app = lambda do |env|
  next [200, {"content-type" => "application/json"}, [JSON.generate(calls:)]] if env["PATH_INFO"] == "/stats"
  number = (calls += 1)
  connections.acquire { sleep delay }
  [200, {"content-type" => "text/plain", "cache-control" => "public, max-age=600"}, [Demo::Report.text(number)]]
end

# In a config.ru: use NeverBlock::Cache, store: "memory:256m"
app = NeverBlock::Cache.new(app, store: "memory:256m") if cache

server = NeverBlock::Server.new(app, bind: "tcp://127.0.0.1:0", max_in_flight: 2_000, error_log: File::NULL)
server.start
puts server.addresses.first.sub("tcp:", "http:")
$stdout.flush
$stdin.read # until the parent closes it, or ends
server.stop(timeout: 1)
