# frozen_string_literal: true

# The command line of the comparison with the stock adapter; `rake fuzz:sql` calls it.
#
#   ruby -Ilib test/fuzz/sql/run.rb
#
# Variables: SECONDS, PROGRAMS, SEED, FROM, ENGINE, DROP, WITHOUT, PLAN, PLANTS, SHRINK, TRIES, LIMIT; see
# CONTRIBUTING.md.
require_relative "command"

exit NeverBlockFuzz::SqlCommand.new(ENV).call
