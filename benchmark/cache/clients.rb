# frozen_string_literal: true

# The clients of the cache benchmark, in a process of their own:
#
#   ruby clients.rb memory /report '{"port":3000,"clients":10000}'
#
# Each has a connection. The process prints "ready" when all are open. For each line of JSON with a query, all clients ask for the
# path with that query at once, and one line of JSON says what they had.
require "json"
require "neverblock"
require "socket"
require_relative "app"
require_relative "../database/child/clock"

CONNECTING = 100 # at once
_, path, options = ARGV
options = JSON.parse(options, symbolize_names: true)
clients = options.fetch(:clients)

# Reads until the response is here.
read = lambda do |socket, &first|
  answer = +""
  until answer.bytesize >= Measured::CachedApp::REPORT.bytesize && answer.end_with?(Measured::CachedApp::REPORT)
    answer << socket.readpartial(65_536)
    first&.call
  end
  answer
end

crowd = lambda do |scope, sockets, query|
  request = "GET #{path}?#{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
  began = trouble = nil
  right = 0
  times = []
  started = Measured::Clock.now
  tasks = sockets.map.with_index do |socket, number|
    NeverBlock.pass if number % CONNECTING == 0
    scope.spawn do
      socket.write(request)
      answer = read.call(socket) { began ||= Measured::Clock.now }
      right += 1 if answer.start_with?("HTTP/1.1 200")
      times << Measured::Clock.now
    rescue SystemCallError, IOError => error
      trouble ||= "#{error.message} (#{error.class})"
    end
  end
  tasks.each(&:join)
  waits = times.map { |time| time - began }
  {operations: clients, right:, trouble:, wall: Measured::Clock.now - started, longest: waits.max, **Measured::Clock.spread(waits)}
end

NeverBlock.run do |scope|
  sockets = NeverBlock.concurrently(1..clients, limit: CONNECTING) { TCPSocket.new("127.0.0.1", options.fetch(:port)) }
  puts "ready"
  $stdout.flush
  while (line = $stdin.gets)
    puts JSON.generate(crowd.call(scope, sockets, JSON.parse(line).fetch("query")))
    $stdout.flush
  end
end
