# frozen_string_literal: true

module NeverBlock
  class Railtie
    # Tells when requests wait for a database connection, since that is what a loop with a thousand requests and a pool of
    # five first runs into.
    #
    #   Patches::Rails::PoolWait.apply(PoolWatch.new(0.1))     # seconds
    # @api private
    class PoolWatch
      # Seconds between two lines about one pool.
      PAUSE = 60

      # @param limit [Numeric] seconds
      # @yieldparam line [String] what is to be told
      def initialize(limit, clock: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }, &tell)
        @limit = limit
        @clock = clock
        @tell = tell || Railtie.method(:log)
        @counts = Hash.new(0)
        @told = {}
      end

      # @param pool [ActiveRecord::ConnectionAdapters::ConnectionPool]
      # @param seconds [Float]
      # @return [void]
      def waited(pool, seconds)
        return if seconds < @limit
        name = pool.db_config.name
        @counts[name] += 1
        return if @told[name] && @clock.call - @told[name] < PAUSE
        @told[name] = @clock.call
        @tell.call(line(pool, name, seconds, @counts.delete(name)))
      end

      private

      def line(pool, name, seconds, count)
        "a request waited #{format("%.2f", seconds)} s for a connection of the pool \"#{name}\", which has #{pool.size}" \
          "#{" (#{count} waited over #{@limit} s since the last such line)" if count > 1}. More requests run than there are " \
          "connections: raise #{setting(pool)} in config/database.yml, or lower max_in_flight in config/neverblock.rb. Code that " \
          "calls .connection or .lease_connection holds one until its request ends: .with_connection { } gives it back"
      end

      def setting(pool)
        return "connections:" if pool.db_config.adapter == "neverblock_postgresql"
        pool.db_config.respond_to?(:max_connections) ? "max_connections:" : "pool:"
      end
    end
  end
end
