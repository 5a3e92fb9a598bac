# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The figures of a pool as one Hash, for {Postgres#stats}, `pool.stat` of Active Record, `/stats`, `/metrics` and
    # the log. docs/postgres.md lists its keys, which are stable.
    #
    #   Snapshot.new(pool, tally, timings).to_h[:idle]   # => 3
    # @api private
    class Snapshot
      include MonotonicClock

      # Shapes of slow statements that it lists.
      MAX_NAMED = 10
      private_constant :MAX_NAMED

      # @param pool [Pool]
      # @param tally [Tally]
      # @param timings [Timings]
      def initialize(pool, tally, timings)
        @pool = pool
        @tally = tally
        @timings = timings
      end

      # @return [Hash{Symbol=>Object}] counts are Integers, times are seconds
      def to_h
        counts, queued_since, holdings = @pool.look
        holders = Holders.new(holdings).to_a
        oldest = holders.filter_map { |holder| holder[:age] }.max || 0.0
        waits = queued_since ? [now - queued_since, 0.0].max.round(3) : 0.0
        processor = @pool.backlog.processor
        {**counts, queued_oldest: waits, held_oldest: oldest, **@tally.to_h, slow:, processor:, holders:}
      end

      private

      def slow
        shapes = @timings.slow
        named = shapes.max_by(MAX_NAMED) { |_shape, average| average }
        named = named.map { |shape, average| {statement: Excerpt.of(shape), average: average.round(4)} }
        {threshold: @timings.threshold.round(4), count: shapes.size, shapes: named}
      end
    end
  end
end
