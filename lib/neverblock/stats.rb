# frozen_string_literal: true

module NeverBlock
  # The statistics of this process: its loops, its thread pools, its tasks, and the sources that have registered.
  #
  #   NeverBlock.stats[:loops]   # => [{engine: "epoll", tasks: 3, parked: 2, switches: 1204, ...}]
  #   NeverBlock.stats[:pools]   # => {files: {limit: 8, threads: 1, idle: 1, queued: 0}, ...}
  #   NeverBlock.stats[:tasks]   # => {unfinished: 3, oldest: 0.42}
  #
  # Counts are Integers, ages are seconds. Thread-safe; covers the calling Ractor.
  # @return [Hash{Symbol=>Object}] by the source's name
  def self.stats = Stats.read

  # The registry of {NeverBlock.stats}. A source responds to `stats` with a Hash or an Array of Hashes.
  #
  #   NeverBlock::Stats.register(:cache, MyCache)
  #   NeverBlock.stats[:cache]   # MyCache.stats
  module Stats
    # Adds a source. It replaces an earlier source of that name.
    # @param name [Symbol]
    # @param source [#stats]
    # @return [void]
    # @raise [ArgumentError] unless the source responds to stats
    def self.register(name, source)
      unless source.respond_to?(:stats)
        raise ArgumentError,
          "Stats.register: the source #{name.inspect} must respond to stats; #{source.inspect} does not"
      end
      sources[name.to_sym] = source
    end

    # Removes a source.
    # @param name [Symbol]
    # @return [void]
    def self.remove(name)
      sources.delete(name.to_sym)
    end

    # Reads all sources. With a block, a source that raises is left out and its error is
    # yielded; without one it is raised.
    # @yieldparam name [Symbol] the source's name
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
    sources # creates the main Ractor's registry now, before two threads could each create one
  end
end
