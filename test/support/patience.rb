# frozen_string_literal: true

require "etc"
require_relative "clock"

module NeverBlockTest
  # How long a test waits for what would hang otherwise. Such a limit is for a machine with free processors: where several
  # processes want each of them, everything takes as many times as long.
  #
  #   Patience.for(20)          # => 20; 60 with three processes for each processor
  #   Patience.over?(now, 20)   # => false
  module Patience
    extend Clock

    MOST = 10 # times as long

    class << self
      # @param seconds [Numeric]
      # @return [Numeric] seconds, as many or more
      def for(seconds) = seconds * share.clamp(1, MOST)

      # @param since [Float] the beginning, by {Clock}
      # @param seconds [Numeric]
      # @return [Boolean]
      def over?(since, seconds) = now - since > seconds && now - since > self.for(seconds)

      private

      # @return [Numeric] processes that wanted a processor in the last minute, by processors
      def share
        File.read("/proc/loadavg").to_f / Etc.nprocessors
      rescue SystemCallError
        1 # not on this system
      end
    end
  end
end
