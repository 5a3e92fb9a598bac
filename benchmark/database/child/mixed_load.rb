# frozen_string_literal: true

# An open-loop load of finds at 60 % of the measured capacity, each timed from its due time: first alone, then with one in a
# hundred replaced by a statement that takes 50 ms. The slow text is always the same, or a new one each time. The two loads
# take turns, so that a disturbance of the machine affects both.
#
#   Measured::MixedLoad.new(layer, executor, text: "distinct", seconds: 2, warm: 0.5).call
#   # => {capacity: 14_000.0, alone_p99: 0.003, p99: 0.004, ...}
require_relative "sustained_load"
require_relative "work"

module Measured
  class MixedLoad
    SHARE = 0.6
    FIBERS = 100 # fibers that determine the capacity
    TURNS = 4

    # @param layer [Object]
    # @param executor [Object] of Executor, running
    # @param text [String] "same" or "distinct"
    # @param seconds [Numeric] for each of the three
    # @param warm [Numeric]
    def initialize(layer, executor, text:, seconds:, warm:)
      @find = Work.new(layer, "find")
      @layer = layer
      @executor = executor
      @text = text
      @seconds = seconds
      @warm = warm
    end

    # @return [Hash{Symbol=>Numeric}]
    def call
      capacity = SustainedLoad.new(@find, @executor, fibers: FIBERS, seconds: @seconds, warm: @warm).call.fetch(:rate)
      rate = capacity * SHARE
      GC.start
      used = Clock.used
      turns = Array.new(TURNS) { |turn| [paced(rate).first, *paced(rate) { |number| slow(turn, number) }] }
      alone, fast, slow = turns.transpose.map(&:flatten)
      {operations: alone.size + fast.size + slow.size, **Clock.since(used), capacity:, rate:,
       **Clock.spread(alone, "alone_"), **Clock.spread(fast), **Clock.spread(slow, "slow_")}
    end

    private

    # @return [String, nil] a statement instead of the find of this number
    def slow(turn, number)
      return unless number % Work::SLOW == Work::SLOW - 1
      (@text == "distinct") ? Work.slow(turn * 1_000_000 + number) : Work.slow
    end

    # @yieldparam number [Integer]
    # @yieldreturn [String, nil] a statement instead of the find of this number
    # @return [Array<Array<Float>>] durations of the finds, and of the others
    def paced(rate)
      times = [[], []]
      total = (rate * @seconds / TURNS).ceil
      done = Thread::Queue.new
      started = Clock.now
      total.times do |number|
        due = started + number / rate
        sleep [due - Clock.now, 0].max # a late request lets the others run too
        sql = yield number if block_given?
        @executor.start do
          one(number, sql)
          times[sql ? 1 : 0] << Clock.now - due
        rescue => error
          @failure ||= error
        ensure
          done << true
        end
      end
      total.times { done.pop }
      @failure ? raise(@failure) : times
    end

    def one(number, sql) = sql ? @layer.slow(sql) : @find.call(number)
  end
end
