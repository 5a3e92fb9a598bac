# frozen_string_literal: true

# The demo's own web server: an ordinary Rack app that sleeps, on NeverBlock.
#
#   ruby -Ilib demo/rack_server.rb --delay 1.0
#
#   GET /anything    after the delay: "you asked for /anything"
#   GET /stats       at once, as JSON: what the server counts, its processor time and its memory
require "json"
require "neverblock/server"
require "optparse"

delay = 1.0
OptionParser.new do |parser|
  parser.banner = "Usage: ruby -Ilib demo/rack_server.rb [--delay SECONDS]"
  parser.on("--delay SECONDS", Float, "how long the app sleeps (1.0)") { |seconds| delay = seconds }
  parser.on("--child", "end when standard input is closed")
  parser.on("--port PORT", Integer, "port on 127.0.0.1, 0 for any (0)")
end.parse!

server = nil
threads = {}
memory = lambda do
  File.read("/proc/self/status")[/^VmRSS:\s+(\d+)/, 1].to_i * 1024
rescue SystemCallError # not on this system
  0
end

app = lambda do |env|
  threads[Thread.current] = true
  if env["PATH_INFO"] == "/stats"
    figures = server.stats.slice(:requests, :answered, :in_flight, :connections)
    cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    next [200, {"content-type" => "application/json"}, [JSON.generate(**figures, threads: threads.size, cpu:, memory: memory.call)]]
  end
  sleep delay
  [200, {"content-type" => "text/plain"}, ["you asked for #{env["PATH_INFO"]}"]]
end

server = NeverBlock::Server.new(app, bind: "tcp://127.0.0.1:0", max_in_flight: 2_000, error_log: File::NULL)
server.start
puts server.addresses.first.sub("tcp:", "http:")
$stdout.flush
$stdin.read # until the parent closes it, or ends
server.stop(timeout: 1)
