# frozen_string_literal: true

module NeverBlock
  # The thread pools of the process: their purpose, their maximum number of threads, and the environment variable that
  # sets it. Native pools run no Ruby and are shared by all Ractors. The other pools exist per Ractor.
  #
  #   NEVERBLOCK_THREADS=32 ruby app.rb
  #   NeverBlock.stats[:pools][:offload]   # => {limit: 32, threads: 3, idle: 1, queued: 0}
  #
  # A call never waits behind a call of another pool, so a user's `offload` doesn't delay core's own operations.
  # @api private
  module Pools
    # native: the threads run no Ruby. endless: a call may never end, and may wait for another call, so the pool
    # grows slowly beyond its limit.
    Pool = Data.define(:name, :serves, :variable, :default, :traits) do
      def native? = traits.include?(:native)

      def endless? = traits.include?(:endless)
    end

    ALL = [
      Pool.new(:files, "transfers of regular files that are not in memory, fsync", "NEVERBLOCK_FILE_THREADS", 8,
        %i[native]),
      Pool.new(:names, "getaddrinfo, getnameinfo", "NEVERBLOCK_NAME_THREADS", 16, %i[native]),
      Pool.new(:waits, "calls that may never end: flock, Process.wait for any child, terminals",
        "NEVERBLOCK_WAIT_THREADS", 256, %i[native endless]),
      Pool.new(:offload, "NeverBlock.offload", "NEVERBLOCK_THREADS", 16, []),
      Pool.new(:operations, "IO.copy_stream between files (Ruby 3.4 and later), Zlib that compresses much",
        "NEVERBLOCK_OPERATION_THREADS", 8, []),
      Pool.new(:opens, "opening FIFOs and devices (Ruby 3.4 and later)", "NEVERBLOCK_OPEN_THREADS", 256, %i[endless])
    ].to_h { |pool| [pool.name, pool] }
    Ractor.make_shareable(ALL)

    # The largest count of the native pools.
    MOST = 2**31 - 1
    private_constant :MOST

    class << self
      # @param name [Symbol]
      # @return [Integer] threads at most
      # @raise [ConfigurationError] if the pool's variable is not a positive number
      def limit(name)
        pool = ALL.fetch(name)
        number = ENV.fetch(pool.variable, pool.default.to_s)
        Integer(number, exception: false)&.then { |limit| return [limit, MOST].min if limit.positive? }
        raise ConfigurationError, "#{pool.variable}=#{number}: must be a positive number of threads; " \
          "the default is #{pool.default} (#{pool.serves})"
      end

      # Sets the sizes of the native pools from the environment.
      # @return [void]
      # @raise [ConfigurationError]
      def configure
        ALL.each_value do |pool|
          Scheduler.limit_native_pool(pool.name, limit(pool.name)) if pool.native? && ENV.key?(pool.variable)
        end
      end

      # @return [Hash{Symbol=>Hash}] :limit, :threads, :idle and :queued of each pool; of the Ruby
      #   pools, those of this Ractor
      def stats
        unused = ALL.values.reject(&:native?).to_h do |pool|
          [pool.name, {limit: limit(pool.name), threads: 0, idle: 0, queued: 0}]
        end
        {**Scheduler.native_pools, **unused, **ThreadPool.stats}
      end
    end
  end
end
