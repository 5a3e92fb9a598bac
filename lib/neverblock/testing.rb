# frozen_string_literal: true

# For tests of programs that use NeverBlock. Requiring this file changes nothing.
#
#   require "neverblock/testing"
#
#   testing/virtual_clock.rb   time that stands still, and jumps when all tasks wait
#   testing/timed_queues.rb    Queue#pop(timeout:) on that clock
#   testing/obstacle.rb        names what keeps that clock from moving
module NeverBlock
  module Testing
  end
end

require_relative "runtime"
require_relative "testing/virtual_clock"
