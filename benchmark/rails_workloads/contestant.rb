# frozen_string_literal: true

# One of those that are measured with the workloads of 2008: so many processes with so many connections to PostgreSQL each, and with
# Puma as many threads.
#
#   Bench::RailsWorkloads::Contestant.puma(4, 3, "#7f8c8d").connections      # => 12
module Bench
  class RailsWorkloads < Rails
    Contestant = Data.define(:library, :processes, :each, :color) do
      # As `rails new` has it, but for the number of processes.
      def self.puma(processes, threads, color) = new("puma", processes, threads, color)

      def self.ours(connections, color) = new("neverblock", 1, connections, color)

      # @return [String]
      def name = "#{library} #{processes}x#{each}"

      # @return [Integer] of all processes
      def connections = processes * each

      # @return [Hash{String=>String}]
      def environment
        own = {"SHOP_CONNECTIONS" => each.to_s}
        return {**own, "WEB_CONCURRENCY" => processes.to_s, "RAILS_MAX_THREADS" => each.to_s} if library == "puma"
        {**own, "SHOP_ADAPTER" => "neverblock_postgresql", "SHOP_PATIENCE" => PATIENCE.to_s}
      end

      def to_s = name
    end
  end
end
