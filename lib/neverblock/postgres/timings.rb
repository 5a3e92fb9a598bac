# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Learns how long statements of each shape take. Fast ones share connections; slow and unknown ones run alone, so
    # that no statement waits behind them. A large result counts as slow even if it arrived quickly, because on a slower
    # network or behind others it would be slow.
    #
    #   timings.record(shape, 0.002, 0.002, 40_000)    # seconds at least, seconds at most, bytes
    #   timings.fast?(shape)                           # => true: others may wait behind it
    # @api private
    class Timings
      # Shapes in each of two generations.
      MAX_SHAPES = 2_000

      # Weight of the last run in a shape's average, from 0 to 1.
      WEIGHT = 0.2

      # Relative change of the usual duration by one run.
      STEP = 0.02

      # Seconds; shorter runs count as this. By many zeros an average would become a denormal number: slow to compute
      # with, and an object.
      SHORTEST = 1e-6

      # Thresholds for which a run of a fast shape counts at most. A single late one, on a busy server or behind a lock,
      # does not make the shape slow; two in a row do.
      MOST = 3

      # Factor: a statement is slow if it takes so many times as long as usual (and `slow:` longer).
      SLOW_FACTOR = 4

      # @param slow [Float] seconds beyond {SLOW_FACTOR} times the usual duration that make a statement slow
      # @param large [Integer] bytes of a result that count as these seconds
      def initialize(slow: 0.01, large: 256 * 1024)
        @slow = slow
        @byte = slow / large
        learn(0.001)
        @recent = {}.compare_by_identity # shapes are interned
        @older = {}
      end

      # @return [Float] seconds from which on a statement is slow
      attr_reader :threshold

      # @param shape [String]
      # @return [Boolean] whether its statements are known to be fast: others may wait behind them
      def fast?(shape)
        average = @recent[shape] || @older[shape]
        !average.nil? && average < @threshold
      end

      # @param shape [String, nil]
      # @return [Boolean] whether its statements are known to be slow
      def slow?(shape)
        average = @recent[shape] || @older[shape]
        !average.nil? && average >= @threshold
      end

      # Thread-safe: it copies the Hash at once, since another thread may add to it meanwhile.
      # @return [Hash{String=>Float}] shapes of slow statements with their average seconds
      def slow = @older.dup.update(@recent).select { |_shape, average| average >= threshold }

      # A busy loop reads a result late, so it knows only bounds. If the threshold lies between them, nothing is learnt
      # about a shape that is not known to be fast; a later run will tell.
      # @param shape [String]
      # @param seconds [Float] duration, at least
      # @param most [Float] duration in seconds, at most
      # @param bytes [Integer] size of the result
      # @return [Boolean] whether this run has made the shape a fast one
      def record(shape, seconds, most = seconds, bytes = 0)
        seconds = SHORTEST if seconds < SHORTEST
        before = @recent[shape] || @older[shape]
        weight = weight(seconds, bytes, before)
        return false if weight < @threshold && most >= @threshold && !(before && before < @threshold)
        learn(@usual * ((seconds > @usual) ? 1 + STEP : 1 - STEP)) # so that it is the median
        remember(shape, before, weight) < @threshold && !(before && before < @threshold)
      end

      # A statement was cancelled, since others waited for it. That counts in full.
      # @param shape [String]
      # @param seconds [Float] duration, at least
      # @return [void]
      def held_up(shape, seconds)
        remember(shape, @recent[shape] || @older[shape], seconds)
      end

      private

      def weight(seconds, bytes, before)
        seconds = MOST * @threshold if seconds > MOST * @threshold && before && before < @threshold
        large = bytes * @byte
        (large > seconds) ? large : seconds
      end

      # @return [Float] the shape's average
      def remember(shape, before, weight)
        rotate if before.nil? && @recent.size >= MAX_SHAPES
        @recent[shape] = before ? before + (weight - before) * WEIGHT : weight
      end

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
