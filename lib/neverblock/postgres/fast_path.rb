# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Runs a harmless read that is known to be fast while a connection is idle: the connection is lent to this one
    # statement, and serves as the stock adapter's would. No queue, no pipeline, no {Statement}. Whatever is unusual
    # goes by {Multiplexer#run}.
    #
    #   path = FastPath.new(multiplexer, pool, upkeep, timings:, tally:, catalogue:)
    #   path.open?(classification)                              # => true
    #   path.run(Read.new(sql, params, …))                      # => PG::Result; nil: it was not sent
    # @api private
    class FastPath
      include MonotonicClock

      # @param multiplexer [Multiplexer]
      # @param pool [Pool]
      # @param upkeep [Upkeep]
      # @param timings [Timings]
      # @param tally [Tally]
      # @param catalogue [Catalogue, nil]
      # @param overtime [Overtime, nil]
      def initialize(multiplexer, pool, upkeep, timings:, tally:, catalogue:, overtime: nil)
        @multiplexer = multiplexer
        @pool = pool
        @router = pool.router
        @upkeep = upkeep
        @timings = timings
        @tally = tally
        @catalogue = catalogue
        @overtime = overtime
      end

      # @param classification [Classification] of a read
      # @return [Boolean] whether {#run} may take it
      def open?(classification)
        shape = classification.fingerprint
        @router.any_idle? && @timings.fast?(shape) && (@catalogue.nil? || @catalogue.harmless?(shape)) &&
          !Pipeline.current
      end

      # @param read [Read]
      # @return [PG::Result, nil] nil: it was not sent, and goes by the queue
      # @raise [PG::Error]
      def run(read)
        began = now
        connection = @pool.lend(read, began) or return
        name = connection.ready(read, began)
        return nowhere(connection) unless name
        @overtime&.watch
        result = connection.ask(read, name, began)
        judged = true
        return completed(read.statement) unless result
        @tally.answered(nil)
        @timings.record(read.fingerprint, connection.heard - began, connection.read_at - began,
          ObjectSpace.memsize_of(result))
        result
      ensure
        give_back(read.connection, read, judged) if read.connection
      end

      private

      # @return [nil]
      def nowhere(connection)
        @tally.moved += 1 if connection.broken
        nil
      end

      def completed(statement) = statement.done? ? statement.value : @multiplexer.run(statement)

      # @param judged [Boolean, nil] whether the result showed an unchanged session
      def give_back(connection, read, judged)
        statement = read.statement
        return (@multiplexer.leave(statement) unless statement.done? || statement.abandoned?) if statement
        return if connection.broken
        return @upkeep.discard(connection) if read.sent && !judged
        @pool.take_back(connection) || @upkeep.settle(connection)
      end
    end
  end
end
