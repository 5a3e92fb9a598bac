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

require_relative "neverblock/version"
require_relative "neverblock/errors"
require_relative "neverblock/extension"
require_relative "neverblock/options"
require_relative "neverblock/task"
require_relative "neverblock/scope"
require_relative "neverblock/flight"
require_relative "neverblock/thread_pool"
require_relative "neverblock/overdue"
require_relative "neverblock/resolver"
require_relative "neverblock/connector"
require_relative "neverblock/scheduler"
require_relative "neverblock/patches"
require_relative "neverblock/engine"
require_relative "neverblock/fiber_pool"
require_relative "neverblock/semaphore"
require_relative "neverblock/run"
require_relative "neverblock/words"
