# frozen_string_literal: true

# Ten requests at once, each with a query of a second: how long until all are answered.
#
#   Bench::Rails::Burst.new(row, seconds: 1).call(server)   # => {"wall" => 1.02, ...}
require "net/http"
require_relative "../../bench/clock"

module Bench
  class Rails
    class Burst
      PATIENCE = 30

      # @param row [Servers::Row]
      def initialize(row, **)
        @row = row
      end

      # @param server [Servers::Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        server.watch(objects: false) do
          started = Clock.now
          answers = Array.new(@row.connections) { Thread.new { ask(server.port) } }.map(&:value)
          {"operations" => answers.size, "wall" => Clock.now - started, "errors" => answers.count { |answer| !answer }}
        end
      end

      private

      def ask(port)
        Net::HTTP.start("127.0.0.1", port, read_timeout: PATIENCE) { |http| @row.right?(http.get(@row.path).body) }
      rescue SystemCallError, IOError, Timeout::Error
        false
      end
    end
  end
end
