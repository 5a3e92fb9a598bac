# frozen_string_literal: true

# The Ruby side of bin/bench, started with Bundler and benchmark/Gemfile:
#
#   bin/bench runtime
#   bin/bench all --quick
require_relative "bench/command"

exit Bench::Command.new(ARGV).run
