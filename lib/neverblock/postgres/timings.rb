# frozen_string_literal: true

module NeverBlock
  class Postgres
    # How long statements of one shape take, learnt as they run: fast ones share connections, slow ones and those that were never
    # seen have one each, so that nothing waits behind them. A large answer is slow however soon it came: the network may be
    # another one's next time, and many of them one behind the other are as long as a few that take long.
    #
    #   timings.record(shape, 0.002, 0.002, 40_000)    # seconds at least, at most, and bytes
    #   timings.fast?(shape)                           # => true: it may be in front of others
    # @api private
    class Timings
      # Shapes that are remembered, twice at most.
      MAX_SHAPES = 2_000

      # How much the last run counts.
      WEIGHT = 0.2

      # How far one run moves what is usual.
      STEP = 0.02

      # Seconds that one takes at least: by many zeros an average becomes so small a number that reckoning with it is slow, and makes objects.
      SHORTEST = 1e-6

      # So many times as long as usual is slow.
      SLOW_FACTOR = 4

      # @param slow [Float] seconds beyond that that make a statement slow
      # @param large [Integer] bytes of an answer that count as these seconds
      def initialize(slow: 0.01, large: 256 * 1024)
        @slow = slow
        @byte = slow / large
        learn(0.001)
        @recent = {}.compare_by_identity # shapes are interned
        @older = {}
      end

      # @return [Float] seconds that a statement takes which is no longer fast
      attr_reader :threshold

      # @param shape [String]
      # @return [Boolean] whether it may be in front of others
      def fast?(shape)
        average = @recent[shape] || @older[shape]
        !average.nil? && average < @threshold
      end

      # @param shape [String, nil]
      # @return [Boolean] whether statements of it were seen, and took long
      def slow?(shape)
        average = @recent[shape] || @older[shape]
        !average.nil? && average >= @threshold
      end

      # From any thread: a copy is made in one go, since what learns meanwhile may add to a Hash that nothing walks through.
      # @return [Hash{String=>Float}] shapes of slow statements, and how long they take on average
      def slow = @older.dup.update(@recent).select { |_shape, average| average >= threshold }

      # A loop that was busy meanwhile knows no more than a least and a most. Between them nothing is learnt of what was not known
      # to be fast: the next one tells, and a loop that waits for few connections is not busy for long.
      # @param shape [String]
      # @param seconds [Float] at least
      # @param most [Float] seconds
      # @param bytes [Integer] of its answer
      # @return [Boolean] whether this made it one of the fast ones
      def record(shape, seconds, most = seconds, bytes = 0)
        seconds = SHORTEST if seconds < SHORTEST
        weight = bytes * @byte
        weight = seconds if weight < seconds
        before = @recent[shape] || @older[shape]
        return false if weight < @threshold && most >= @threshold && !(before && before < @threshold)
        after = before ? before + (weight - before) * WEIGHT : weight
        learn(@usual * ((seconds > @usual) ? 1 + STEP : 1 - STEP)) # so that it is the median
        rotate if before.nil? && @recent.size >= MAX_SHAPES
        @recent[shape] = after
        after < @threshold && !(before && before < @threshold)
      end

      private

      def learn(usual)
        @usual = usual
        @threshold = @slow + SLOW_FACTOR * @usual
      end

      def rotate
        @older = @recent
        @recent = {}.compare_by_identity
      end
    end
  end
end
