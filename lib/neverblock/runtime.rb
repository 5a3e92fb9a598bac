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
# The words are here, one module function per file in neverblock/words/ where it takes more than a line.
module NeverBlock
end

# The 2008 name.
NB = NeverBlock unless defined?(NB)

require_relative "version"
require_relative "errors"
require_relative "extension"
require_relative "options"
require_relative "task"
require_relative "scope"
require_relative "flight"
require_relative "pools"
require_relative "thread_pool"
require_relative "overdue"
require_relative "resolver"
require_relative "connector"
require_relative "other_threads"
require_relative "ways_out"
require_relative "loops"
require_relative "caller_masks"
require_relative "scheduler"
require_relative "lock_waiters"
require_relative "stats"
require_relative "async_remedy"
require_relative "patches"
require_relative "engine"
require_relative "fiber_pool"
require_relative "semaphore"
require_relative "run"
require_relative "promise"
require_relative "cancel_scope"
require_relative "dump"
require_relative "select"
require_relative "words"
