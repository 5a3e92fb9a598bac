# frozen_string_literal: true

require "json"
require "net/http"
require_relative "../../bench/child_process"

# Clients in a process of their own that all ask for one URL that is not stored; each has a socket, open before. The second URL
# counts: for the first one, Ruby allocates stacks for so many fibers.
#
#   Bench::Cache::Clients.new(row, contestant).call(server)
#   # => {"operations" => 10_000, "right" => 10_000, "calls" => 1, "p99" => 0.3, "held" => 0.008, "memory_each" => 14_000.0, ...}
module Bench
  class Cache
    class Clients
      LIMIT = 90 # seconds for one answer

      # @param row [Row]
      # @param contestant [Contestant]
      def initialize(row, contestant)
        @row = row
        @contestant = contestant
      end

      # @param server [Servers::Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        memory = server.tree.memory
        child = ChildProcess.new("cache/clients.rb", @contestant, @row.path, wrapper: Servers::Core::CLIENT.tie, port: server.port, clients: @row.clients)
        child.start.await_ready
        first = crowd(server, child, "first")
        figures = crowd(server, child, "second")
        {**figures, "held_first" => first["held"], "memory_each" => (figures["memory_peak"] - memory).fdiv(@row.clients)}
      ensure
        child&.stop
      end

      private

      def crowd(server, child, query)
        get(server, "/forget")
        watch = Thread.new { get(server, "/watch") }
        figures = server.watch(objects: false) { child.ask(query:) }
        get(server, "/watched")
        {**figures, **JSON.parse(watch.value), "calls" => Integer(get(server, "/calls"))}
      ensure
        watch&.kill&.join
      end

      def get(server, path) = Net::HTTP.start("127.0.0.1", server.port, read_timeout: LIMIT) { |http| http.get(path).body }
    end
  end
end
