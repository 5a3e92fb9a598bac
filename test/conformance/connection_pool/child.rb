# frozen_string_literal: true

# Runs the gem's test file with our class under the gem's name:
#
#   ruby -Ilib test/conformance/connection_pool/child.rb CHECKOUT [in_loop] [minitest's options]
require "bundler/setup"
require "minitest"
require "minitest/mock"
require "neverblock"

checkout = File.realpath(ARGV.shift)
in_loop = ARGV.first == "in_loop" && ARGV.shift

ConnectionPool = NeverBlock::ConnectionPool

# What the gem's test/helper.rb has. It loads gems that its tests do without, and the gem itself.
class ConnectionPool
  def self.reset_instances = nil
end

module Kernel
  def silence_warnings
    verbose, $VERBOSE = $VERBOSE, nil
    yield
  ensure
    $VERBOSE = verbose
  end
end

$LOADED_FEATURES << File.join(checkout, "test", "helper.rb")

if in_loop
  Minitest::Test.prepend(Module.new { def run = NeverBlock.run { super } })
end

require File.join(checkout, "test", "test_connection_pool.rb")
exit Minitest.run(ARGV)
