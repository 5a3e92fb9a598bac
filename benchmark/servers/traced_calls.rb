# frozen_string_literal: true

# System calls of a running server for each request, counted by strace while our own
# client sends a bounded number of them.
#
#   Bench::Servers::TracedCalls.new(server).per_request(row)     # => {"recvfrom" => 1.0, "sendto" => 1.0}
require "tempfile"
require_relative "../bench/system_calls"
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
        Tempfile.create("strace") do |summary|
          answered = Load.count(@server.port, Load.closed(row.connections, row.raw), row.calls) { attach(summary.path) }
          detach
          SystemCalls.parse(File.read(summary.path)).transform_values { |number| number.fdiv(answered) }
            .select { |_, number| number > NOISE }
        ensure
          detach
        end
      end

      private

      def attach(path)
        processes = @server.tree.pids.flat_map { |pid| ["-p", pid.to_s] }
        @said, said = IO.pipe
        @strace = Process.spawn(*Core::CLIENT.tie("strace", "-f", "-c", "-o", path, *processes), in: File::NULL, out: said, err: said)
        said.close
        # One line for each process; that the last one is attached is what matters.
        (processes.size / 2).times { @said.gets }
      end

      def detach
        return unless @strace
        Process.kill(:INT, @strace)
        Process.wait(@strace)
      rescue Errno::ESRCH
        Process.wait(@strace)
      ensure
        @strace = nil
        @said&.close
      end
    end
  end
end
