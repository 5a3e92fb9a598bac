# frozen_string_literal: true

# Connections that stay, each asking when it is told to:
#
#   ruby test/support/long/crowd.rb PORT
#   > open 10000     # connects so many more, each asks once; answers with the number that got their answer
#   > ask            # all ask, at once, and all read their answers; answers with their number
require "socket"

port = Integer(ARGV[0])
REQUEST = "GET /hello HTTP/1.1\r\nHost: a\r\n\r\n"
members = []

# How many of them get 200 and the whole of it.
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
