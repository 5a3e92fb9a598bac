# frozen_string_literal: true

module NeverBlock
  class Postgres
    # One thread of a process that looks, once a minute, at what connections keep that nobody uses just then: what the last statement
    # has left would lie there until the next one comes, a lock, say, that others wait for.
    #
    #   Patrol.watch(multiplexer)      # Multiplexer#look_around is called now and then, as long as it answers with true
    #
    # A thread, since a fiber would keep its loop from ending.
    # @api private
    module Patrol
      # Seconds from one round to the next.
      EVERY = 60

      @watched = ObjectSpace::WeakMap.new
      @lock = Thread::Mutex.new

      class << self
        # @param multiplexer [#look_around]
        # @return [void]
        def watch(multiplexer)
          return if @watched.key?(multiplexer) && @thread&.alive?
          @lock.synchronize do
            @watched[multiplexer] = true
            @thread = Thread.new { go_round } unless @thread&.alive? # a forked child has none
          end
        end

        # @return [void]
        def round = @watched.keys.each { |multiplexer| multiplexer.look_around || @watched.delete(multiplexer) }

        private

        def go_round
          Thread.current.name = "neverblock postgres"
          loop do
            ThreadPool.mark_idle(Thread.current, true)
            sleep(EVERY)
            ThreadPool.mark_idle(Thread.current, false)
            round
          end
        end
      end
    end
  end
end
