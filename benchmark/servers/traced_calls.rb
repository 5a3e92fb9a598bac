# frozen_string_literal: true

# System calls of a running server for each request, counted by strace while our own
# client sends a bounded number of them.
#
#   Bench::Servers::TracedCalls.new(server).per_request(row)     # => {"recvfrom" => 1.0, "sendto" => 1.0}
require_relative "../bench/strace"
require_relative "core"
require_relative "load"

module Bench
  class Servers
    class TracedCalls
      NOISE = 0.005 # calls for each request; below that they belong to the attaching

      # @param server [Running]
      def initialize(server)
        @server = server
      end

      # @param row [Row]
      # @return [Hash{String=>Float}] by name
      # @raise [Failure]
      def per_request(row)
        strace = Strace.new(@server.tree.pids, wrapper: Core::CLIENT.tie)
        answered = Load.count(@server.port, Load.closed(row.connections, row.raw), row.calls) { strace.attach }
        strace.detach.transform_values { |number| number.fdiv(answered) }.select { |_, number| number > NOISE }
      ensure
        strace&.detach
      end
    end
  end
end
