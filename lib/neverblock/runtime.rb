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
# This file loads the runtime. The folder beside it has one file for each name that programs use, and:
#
#   testing/     for tests of programs; `require "neverblock/testing"` loads it
#   api/         the functions of NeverBlock; the short ones are in api.rb
#   scheduler/   the Ruby half of the loop
#   scope/       the nesting of scopes
#   select/      the cases of a select
#   patches/     one file per patch of Ruby and Rails
#   railtie/     the parts of the Railtie
#   runtime/     internals of the functions:
#
#     extension.rb            loads the compiled extension
#     vendored_extension.rb   compiles it in an app's vendor/gems, for bundle install
#     options.rb              checks the arguments of the functions
#     pools.rb                lists the thread pools and their sizes
#     thread_pool.rb          threads for calls that block inside C
#     connector.rb            connects to a host by name (Happy Eyeballs)
#     dump.rb                 prints scopes and tasks
#     processor_share.rb      measures how much this process computes
#     forks.rb                takes connections away from forked children
#     monotonic_clock.rb      the time for deadlines and ages
#     value_type.rb           checks, converts and prints an option's value
#     wake_up.rb              hands something over to a fiber that waits for it
#     program_line.rb         finds the line of the program that a fiber is at
#     unique_names.rb         names for pools and caches
#     http_fields.rb          fields on which the cache, the proxy and the caching of actions agree
#
# cli/, server/, cache/, postgres/, mysql/, sql/, connection_pool/, fibered_connection_pool/, active_record/ and shards/
# stand on the runtime; the file of the same name heads each, but for sql/.
module NeverBlock
end

# The name of 2008.
NB = NeverBlock unless defined?(NB)

require_relative "version"
require_relative "errors"
require_relative "runtime/extension"
require_relative "clock"
require_relative "runtime/monotonic_clock"
require_relative "runtime/wake_up"
require_relative "runtime/options"
require_relative "task"
require_relative "scope"
require_relative "flight"
require_relative "runtime/pools"
require_relative "runtime/thread_pool"
require_relative "scheduler/timeout_watchdog"
require_relative "scheduler/resolver"
require_relative "runtime/connector"
require_relative "runtime/forks"
require_relative "runtime/program_line"
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
require_relative "connection_pool"
