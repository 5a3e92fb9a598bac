# frozen_string_literal: true

require "json"
require "net/http"
require_relative "../../bench/child_process"

# Clients in a process of their own that all ask for one URL that is not stored; each has a connection, open before. The second
# URL counts: with the first one, a process grows.
#
#   Bench::Proxy::Stampede.new(row, contestant, origin).call(server)
#   # => {"operations" => 10_000, "right" => 10_000, "asked" => 1, "p99" => 0.3, "memory_each" => 14_000.0, ...}
module Bench
  class Proxy
    class Stampede
      # @param row [Row]
      # @param contestant [Contestant]
      # @param origin [Servers::Running]
      def initialize(row, contestant, origin)
        @row = row
        @contestant = contestant
        @origin = origin
      end

      # @param server [Servers::Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        before = resident(server, "VmRSS")
        child = ChildProcess.new("cache/clients.rb", @contestant, @row.path, wrapper: Servers::Core::CLIENT.tie, port: server.port, clients: @row.connections)
        child.start.await_ready
        crowd(server, child, "first")
        figures = crowd(server, child, "second")
        {**figures, "memory_each" => (resident(server, "VmHWM") - before).fdiv(@row.connections)}
      ensure
        child&.stop
      end

      private

      def crowd(server, child, query)
        get("/forget")
        figures = server.watch(objects: false) { child.ask(query:) }
        {**figures, "asked" => Integer(get("/calls"))}
      end

      def get(path) = Net::HTTP.get(URI("http://127.0.0.1:#{@origin.port}#{path}"))

      # @return [Integer] bytes of all its processes
      def resident(server, name) = server.tree.pids.sum { |pid| File.read("/proc/#{pid}/status")[/^#{name}:\s+(\d+) kB/, 1].to_i * 1024 }
    end
  end
end
