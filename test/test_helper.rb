# frozen_string_literal: true

# Loaded by every test file first:
#
#   require "test_helper"
#
#   class QueueTest < Minitest::Test
#     include NeverBlockTest::Helpers
#   end
#
# Warnings that Ruby prints about our own files are errors here.
module NeverBlockTest
  ROOT = File.expand_path("..", __dir__)
end

# So that `ruby -Ilib -Itest FILE` is enough: the gems of the tests are in vendor/bundle.
require "bundler/setup" unless defined?(Bundler)

require_relative "support/warnings"
$VERBOSE = true
Warning[:deprecated] = true
Warning[:experimental] = true

# A run for another build of the extension must not quietly test the usual one.
if (library = ENV["NEVERBLOCK_TEST_LIBRARY"])
  require "neverblock"
  unless $LOADED_FEATURES.any? { |path| path.start_with?(File.join(library, "")) && path.include?("neverblock_ext") }
    abort "the extension was not loaded from #{library}: lib/ must find it by its load path"
  end
end

require "minitest/autorun"
require_relative "support/marks"
require_relative "support/names_only"
require_relative "support/tally"
require_relative "support/helpers"
require_relative "support/idle_pools"
require_relative "support/state_by_fiber"
