# frozen_string_literal: true

# The runtime fuzzer's command line; `rake fuzz:runtime` calls it.
#
#   ruby -Ilib test/fuzz/runtime/run.rb
#
# Variables: SECONDS, SEED, ENGINE, DROP, WITHOUT, PLAN, TIMES, SHRINK, LIMIT, TRACE; see CONTRIBUTING.md.
require_relative "command"

exit NeverBlockFuzz::Command.new(ENV).call
