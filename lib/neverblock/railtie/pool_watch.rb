# frozen_string_literal: true

require_relative "../active_record/adapters"
require_relative "../runtime/processor_share"

module NeverBlock
  class Railtie
    # Logs waits of requests for a database connection. A loop with a thousand requests and a pool
    # of five runs into them first.
    #
    #   Patches::Rails::PoolWait.apply(PoolWatch.new(0.1))     # seconds
    # @api private
    class PoolWatch
      # Minimum seconds between two lines about one pool.
      PAUSE = 60

      # @param limit [Numeric] seconds from which a wait is logged
      # @param processor [ProcessorShare]
      # @yieldparam line [String] a line to log
      def initialize(limit, processor: ProcessorShare.new, &tell)
        @limit = limit
        @processor = processor
        @tell = tell || Railtie.method(:log)
        @counts = Hash.new(0)
        @told = {}
      end

      # @param pool [ActiveRecord::ConnectionAdapters::ConnectionPool]
      # @param seconds [Float] the length of the wait
      # @return [void]
      def waited(pool, seconds)
        @processor.note
        return if seconds < @limit
        name = pool.db_config.name
        @counts[name] += 1
        return if @told[name] && Clock.now - @told[name] < PAUSE
        @told[name] = Clock.now
        @tell.call(line(pool, name, seconds, @counts.delete(name)))
      end

      private

      def line(pool, name, seconds, count)
        shared = ActiveRecordAdapters.known?(pool.db_config.adapter)
        "a request waited #{format("%.2f", seconds)} s for a connection of the pool \"#{name}\", " \
          "which has #{size(pool, shared)}" \
          "#{" (#{count} waited over #{@limit} s since the last such line)" if count > 1}. " \
          "#{remedy(pool, shared, seconds)}"
      end

      def remedy(pool, shared, seconds)
        if @processor.saturated?(seconds)
          return "This process computed for #{(@processor.over(seconds) * 100).round} % of that time: " \
            "the processor is the bottleneck, and more connections would not help. " \
            "Run more workers if there are more processors, or lower max_in_flight in config/neverblock.rb"
        end
        "More requests run than there are connections: raise #{setting(pool, shared)} in config/database.yml, " \
          "or lower max_in_flight in config/neverblock.rb. #{shared ? "#{HELD}#{holders(pool)}" : LEASED}"
      end

      def holders(pool)
        stats = pool.stat[:neverblock] or return
        ". Now #{Postgres::Holders.words(stats[:holders], stats[:size])}"
      end

      HELD = "Transactions that wait for something else, slow statements and session state hold one each"
      LEASED = "Code that calls .connection or .lease_connection holds one until its request ends; " \
        ".with_connection { } returns it at once"
      private_constant :HELD, :LEASED

      def size(pool, shared) = shared ? pool.db_config.configuration_hash.fetch(:connections, 12) : pool.size

      def setting(pool, shared)
        return "connections:" if shared
        pool.db_config.respond_to?(:max_connections) ? "max_connections:" : "pool:"
      end
    end
  end
end
