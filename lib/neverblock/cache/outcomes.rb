# frozen_string_literal: true

module NeverBlock
  class Cache
    # Counts what became of requests, one outcome for each, and leaves it in the request's env for logs.
    #
    #   outcomes = Outcomes.new
    #   outcomes.count(env, :hit)
    #   outcomes.to_h[:hit]           # => 1
    #   env["neverblock.cache"]       # => :hit
    #
    #   hit           a stored response that is fresh
    #   stale         a stored response that is not: `stale-while-revalidate`, `stale-if-error`, a client's `max-stale`
    #   revalidated   the stored response, after the app has said that it is still right
    #   miss          the request began a fetch, or wanted a stored response alone and there was none
    #   collapsed     the request got the response of a fetch that another one had begun
    #   pass          looked up, then sent to the app by itself: the response can't be shared, or did not come in time
    #   bypass        not looked up
    #   failed        the fetch has raised an error
    #
    # Threads may lose a count to each other: a lock would cost each hit more than the figure is worth.
    # @api private
    class Outcomes
      ALL = %i[hit stale revalidated miss collapsed pass bypass failed].freeze
      # In Rack's env. If another cache is further inside, its word counts for what passes this one.
      NOTE = "neverblock.cache"
      private_constant :ALL, :NOTE

      def initialize
        @counts = ALL.to_h { |outcome| [outcome, 0] }
      end

      # Called before the app, if it gets this env.
      # @param env [Hash] of a client
      # @param outcome [Symbol]
      # @return [void]
      def count(env, outcome)
        @counts[outcome] += 1
        env[NOTE] = outcome
      end

      # @return [Hash{Symbol=>Integer}] since the beginning of this process, or of the one that it was forked from
      def to_h = @counts.dup
    end
  end
end
