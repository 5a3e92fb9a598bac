# frozen_string_literal: true

require "etc"
require_relative "../clock"

module NeverBlockTest
  class Suite
    # Decides how many runs go on at a time. Many tests wait for other programs, so there are more runs than processors
    # for as long as processors have nothing to do. On a busy machine there is one more than processors.
    #
    #   lanes = Lanes.new
    #   lanes.room?(3)   # => true: a fourth run may start
    class Lanes
      include Clock

      PROCESSORS = Etc.nprocessors.clamp(1, 4)
      LEAST = PROCESSORS + 1
      MOST = PROCESSORS * 3
      # The part of the processors' time that is left over for another run.
      ROOM = 0.15
      IDLE = 3..4
      NONE = [0] * 5
      private_constant :ROOM, :IDLE, :NONE

      # @param limit [Integer, nil] a fixed number of runs
      # @param path [String] where Linux tells what the processors do
      # @param every [Numeric] seconds between two looks there; a run that has just started takes about as long to show
      #   how much it needs
      def initialize(limit: ENV["NEVERBLOCK_TEST_LANES"]&.then { |text| Integer(text) }, path: "/proc/stat", every: 1.0)
        @limit = limit
        @path = path
        @every = every
        look
      end

      # @param running [Integer] runs that go on
      # @return [Boolean] whether another may start
      def room?(running)
        return running < @limit if @limit
        running < LEAST || (running < MOST && now - @looked > @every && look > ROOM)
      end

      private

      # @return [Float] the part of the time since the last look in which the processors were idle
      def look
        before, @ticks, @looked = @ticks, ticks, now
        passed = before ? @ticks.sum - before.sum : 0
        (passed > 0) ? (@ticks[IDLE].sum - before[IDLE].sum) / passed.to_f : 0.0
      end

      # Times in ticks: user, nice, system, idle, waiting for disks, ... (proc_stat(5)). None where others use the same
      # processors, as in most containers: there the file is about the whole machine.
      def ticks
        text = File.exist?(@path) ? File.read(@path) : ""
        return NONE unless text.scan(/^cpu\d/).size == Etc.nprocessors
        text[/^cpu .*/].split.drop(1).map(&:to_i)
      end
    end
  end
end
