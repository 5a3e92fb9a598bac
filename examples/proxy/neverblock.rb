# frozen_string_literal: true

# A cache and a balancer before two servers, whatever they are written in:
#
#   UPSTREAMS="http://127.0.0.1:3000 http://127.0.0.1:3001" neverblock proxy -C examples/proxy/neverblock.rb
#   neverblock proxy explain http://127.0.0.1:8000/report --control tmp/proxy.sock
#
# docs/proxy.md has every option.
require "fileutils"
FileUtils.mkdir_p("tmp") # for the control socket

bind "tcp://127.0.0.1:#{ENV.fetch("PORT", 8000)}"
control ENV.fetch("CONTROL", "tmp/proxy.sock")

upstream(*ENV.fetch("UPSTREAMS", "http://127.0.0.1:3000").split)

proxy cache: "memory:64m", # what may be shared, and one fetch for all that ask at the same time
  options: {
    health: {path: ENV.fetch("HEALTH", "/up"), every: 2, fall: 2}, # one that is not well gets no requests
    balance: :hash,                     # each URL has its own server, whose own caches stay warm
    timeouts: {connect: 1, first_byte: 30}
  }

access_log :json
