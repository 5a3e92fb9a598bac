# frozen_string_literal: true

# Agoo has no command that takes a rackup file and a number of threads:
#
#   ruby agoo.rb PORT THREADS
require "agoo"
require_relative "../app"

port, threads = ARGV.map { |argument| Integer(argument) }
Agoo::Log.configure(dir: "", console: true, classic: true, colorize: false,
  states: {INFO: false, DEBUG: false, connect: false, request: false, response: false, eval: false, push: false})
Agoo::Server.init(port, ".", thread_count: threads, worker_count: 1, bind: ["http://127.0.0.1:#{port}"])
Agoo::Server.handle(nil, "**", Bench::App.new)
Agoo::Server.start
sleep
