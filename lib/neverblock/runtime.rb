# frozen_string_literal: true

# Plain Ruby that never blocks: every wait parks a fiber, never the process.
#
#   require "neverblock"
#   require "net/http"
#
#   NeverBlock.run do
#     pool = NB::FiberPool.new(20)
#     20.times { pool.spawn { Net::HTTP.get(URI("http://127.0.0.1:8080/")) } }
#   end
#
# The functions of NeverBlock are in neverblock/api.rb and neverblock/api/. Beside this file is what programs name; what they
# do not is in neverblock/runtime/ and, where it is a part of the loop, in neverblock/scheduler/.
module NeverBlock
end

# The 2008 name.
NB = NeverBlock unless defined?(NB)

require_relative "version"
require_relative "errors"
require_relative "runtime/extension"
require_relative "runtime/options"
require_relative "task"
require_relative "scope"
require_relative "flight"
require_relative "runtime/pools"
require_relative "runtime/thread_pool"
require_relative "scheduler/timeout_watchdog"
require_relative "scheduler/resolver"
require_relative "runtime/connector"
require_relative "scheduler/other_threads"
require_relative "scheduler/ways_out"
require_relative "scheduler/loops"
require_relative "scheduler/caller_masks"
require_relative "scheduler"
require_relative "scheduler/lock_waiters"
require_relative "stats"
require_relative "scheduler/async_remedy"
require_relative "patches"
require_relative "engine"
require_relative "fiber_pool"
require_relative "semaphore"
require_relative "promise"
require_relative "cancel_scope"
require_relative "runtime/dump"
require_relative "select"
require_relative "api"
