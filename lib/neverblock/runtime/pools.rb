# frozen_string_literal: true

module NeverBlock
  # The thread pools of the process: what each serves, how many threads it may have, and which variable of the
  # environment sets that. Native pools run no Ruby and are shared by all Ractors; the others are a Ractor's own.
  #
  #   NEVERBLOCK_THREADS=32 ruby app.rb
  #   NeverBlock.stats[:pools][:offload]   # => {limit: 32, threads: 3, idle: 1, queued: 0}
  #
  # No call waits behind one of another pool: a user's `offload` never holds up core's own operations.
  # @api private
  module Pools
    # native: its threads run no Ruby. endless: its calls may never end, and one may wait for another, so beyond the limit it
    # grows slowly.
    Pool = Data.define(:name, :serves, :variable, :default, :traits) do
      def native? = traits.include?(:native)

      def endless? = traits.include?(:endless)
    end

    ALL = [
      Pool.new(:files, "transfers of regular files that are not in memory, fsync", "NEVERBLOCK_FILE_THREADS", 8, %i[native]),
      Pool.new(:names, "getaddrinfo, getnameinfo", "NEVERBLOCK_NAME_THREADS", 16, %i[native]),
      Pool.new(:waits, "calls that may never end: flock, Process.wait for any child, terminals", "NEVERBLOCK_WAIT_THREADS", 256, %i[native endless]),
      Pool.new(:offload, "NeverBlock.offload", "NEVERBLOCK_THREADS", 16, []),
      Pool.new(:operations, "IO.copy_stream between files (Ruby 3.4 and later), Zlib that compresses much", "NEVERBLOCK_OPERATION_THREADS", 8, []),
      Pool.new(:opens, "opening FIFOs and devices (Ruby 3.4 and later)", "NEVERBLOCK_OPEN_THREADS", 256, %i[endless])
    ].to_h { |pool| [pool.name, pool] }
    Ractor.make_shareable(ALL)

    # What the native pools can count; more would be no limit either.
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
        raise ConfigurationError, "#{pool.variable}=#{number}: must be a positive number of threads; unset, it is #{pool.default} (#{pool.serves})"
      end

      # Gives the native pools the sizes that the environment asks for.
      # @return [void]
      # @raise [ConfigurationError]
      def configure
        ALL.each_value { |pool| Scheduler.limit_native_pool(pool.name, limit(pool.name)) if pool.native? && ENV.key?(pool.variable) }
      end

      # @return [Hash{Symbol=>Hash}] of each pool :limit, :threads, :idle, :queued; of the Ruby ones those of this Ractor
      def stats
        unused = ALL.values.reject(&:native?).to_h { |pool| [pool.name, {limit: limit(pool.name), threads: 0, idle: 0, queued: 0}] }
        {**Scheduler.native_pools, **unused, **ThreadPool.stats}
      end
    end
  end
end
