# frozen_string_literal: true

module NeverBlock
  # The figures of this process: of its loops, its thread pools, and whatever else has registered.
  #
  #   NeverBlock.stats[:loops]   # => [{engine: "epoll", tasks: 3, parked: 2, switches: 1204, ...}]
  #   NeverBlock.stats[:pools]   # => {files: {limit: 8, threads: 1, idle: 1, queued: 0}, ...}
  #   NeverBlock.stats[:tasks]   # => {unfinished: 3, oldest: 0.42}
  #
  # Counts are Integers, ages are seconds. From any thread; of the calling Ractor.
  # @return [Hash{Symbol=>Object}] by the name of the source
  def self.stats = Stats.read

  # The registry behind {NeverBlock.stats}. A source responds to `stats` with a Hash or an Array of such.
  #
  #   NeverBlock::Stats.register(:cache, MyCache)
  #   NeverBlock.stats[:cache]   # MyCache.stats
  module Stats
    # Adds a source, in the place of an earlier one of that name.
    # @param name [Symbol]
    # @param source [#stats]
    # @return [void]
    # @raise [ArgumentError] if the source does not respond to stats
    def self.register(name, source)
      unless source.respond_to?(:stats)
        raise ArgumentError, "Stats.register: the source #{name.inspect} must respond to stats; #{source.inspect} does not"
      end
      sources[name.to_sym] = source
    end

    # @param name [Symbol]
    # @return [void]
    def self.remove(name)
      sources.delete(name.to_sym)
    end

    # @yieldparam name [Symbol] of a source that raises an error, which is left out; without a block the error is raised
    # @yieldparam error [StandardError]
    # @return [Hash{Symbol=>Object}]
    def self.read
      sources.each_with_object({}) do |(name, source), all|
        all[name] = source.stats
      rescue => error
        block_given? ? yield(name, error) : raise
      end
    end

    def self.sources
      Ractor.current[:neverblock_stats] ||= {loops: Loops, pools: Pools, tasks: Task}
    end
    private_class_method :sources
    sources # the main Ractor's, before threads could make two
  end
end
