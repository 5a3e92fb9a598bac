# frozen_string_literal: true

# Servers that all run at once and take turns: a shared machine changes its pace from second to second, by a factor of
# two at times, and turns within a few seconds have the same pace.
#
#   turns = Bench::Servers::Turns.new(results, turns: 4) { |result| Launch.new(result.cell.contestant, row) }
#   turns.call { |result, server| measurements[result].call(server) }   # each result has four samples more, or a failure
#   Bench::Servers::Turns.ratio(ours, falcon) { |turn| turn["rate"] }   # => 1.07
require_relative "../bench/failure"
require_relative "../bench/statistics"
require_relative "running"

module Bench
  class Servers
    class Turns
      # @param results [Array<Result>] of one row
      # @param turns [Integer]
      # @param ready [Proc] called with each server before the first turn
      # @yieldparam result [Result]
      # @yieldreturn [Launch]
      def initialize(results, turns:, ready: ->(server) {}, &launch)
        @results = results
        @turns = turns
        @ready = ready
        @launch = launch
      end

      # A failed server is not tried again, and the others go on without it.
      # @yieldparam result [Result]
      # @yieldparam server [Running]
      # @yieldreturn [Hash{String=>Object}] the figures of a turn
      # @return [void]
      def call(&measure) = start(@results.reject(&:failure)) { |servers| take(servers, &measure) }

      # @param mine [Result]
      # @param peer [Result]
      # @yieldparam sample [Hash] of one turn
      # @yieldreturn [Numeric]
      # @return [Float, nil] the median of the ratios of both in the same turn
      def self.ratio(mine, peer, &)
        ratios = ratios(mine, peer, &)
        Statistics.median(ratios) if ratios.any?
      end

      # @return [Array<Float>] the ratio of both in each turn that both have
      def self.ratios(mine, peer)
        return [] unless mine&.any? && peer.any?
        mine.samples.zip(peer.samples).filter_map { |one, other| yield(one).fdiv(yield(other)) if other && yield(other).positive? }
      end

      private

      # One within the other, since each is stopped where its block ends.
      def start(results, servers = {}, &block)
        result, *rest = results
        return yield(servers) unless result
        inside = false
        Running.open(@launch.call(result)) do |server|
          @ready.call(server)
          inside = true
          start(rest, {**servers, result => server}, &block)
        end
      rescue Failure => failure
        result.failure ||= failure.message
        start(rest, servers, &block) unless inside
      end

      def take(servers)
        @turns.times do |turn|
          servers.to_a.rotate(turn).each do |result, server|
            result.samples << yield(result, server) unless result.failure
          rescue Failure => failure
            result.failure = failure.message
          end
        end
      end
    end
  end
end
