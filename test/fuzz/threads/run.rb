# frozen_string_literal: true

# The command line of the differential fuzzer; `rake fuzz:threads` calls it.
#
#   ruby -Ilib test/fuzz/threads/run.rb
#
# Variables: SECONDS, PROGRAMS, SEED, FROM, ENGINE, DROP, WITHOUT, PLAN, SHRINK, TRIES, LIMIT; see CONTRIBUTING.md.
require_relative "command"

exit NeverBlockFuzz::StrandsCommand.new(ENV).call
