# frozen_string_literal: true

# Persistent connections that send requests on command:
#
#   ruby test/support/long/crowd.rb PORT
#   > open 10000     # opens 10000 more connections, with a request on each; prints the number of answers
#   > ask            # sends a request on all at once and reads all answers; prints their number
require "socket"

port = Integer(ARGV[0])
REQUEST = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
members = []

# Counts connections that get a complete answer with status 200.
ask = lambda do |those|
  those.each { |socket| socket.write(REQUEST) }
  those.count do |socket|
    answer = socket.readpartial(4_096)
    answer << socket.readpartial(4_096) until answer.end_with?("\r\n\r\nhello") || !answer.start_with?("HTTP/1.1 200")
    answer.end_with?("hello")
  rescue EOFError, SystemCallError, IO::TimeoutError
    false
  end
end

$stdout.sync = true
while (line = $stdin.gets)
  word, count = line.split
  if word == "open"
    answered = Array.new(Integer(count)).each_slice(500).sum do |some|
      members.concat(some.map { TCPSocket.new("127.0.0.1", port).tap { |socket| socket.timeout = 30 } })
      ask.call(members.last(some.size))
    end
    puts(answered)
  else
    puts(ask.call(members))
  end
end
