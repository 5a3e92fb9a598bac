# frozen_string_literal: true

module NeverBlock
  class Postgres
    # One thread of a process that looks, now and then, at connections that nobody uses just then: what the last statement has left would
    # lie there until the next one comes, a lock, say, that others wait for; and connections end, or are asked whether they live ({Turnover}).
    #
    #   Janitor.watch(multiplexer)      # #look_around is called each `every` seconds, as long as it answers with true
    #
    # A thread, since a fiber would keep its loop from ending.
    # @api private
    module Janitor
      # Seconds from one look at what connections keep to the next.
      INTERVAL = 60

      @watched = ObjectSpace::WeakMap.new
      @lock = Thread::Mutex.new
      @news = Thread::Queue.new

      class << self
        # @param watched [#look_around, #every, #due=]
        # @return [void]
        def watch(watched)
          return if @watched.key?(watched) && @thread&.alive?
          @lock.synchronize do
            watched.due = now + watched.every
            @watched[watched] = true
            @thread = Thread.new { run } unless @thread&.alive? # a forked child has none
          end
          @news << true # it may be due before the others
        end

        # @return [void]
        def run_once = look(@watched.keys)

        private

        def run
          Thread.current.name = "neverblock postgres"
          loop do
            ThreadPool.mark_idle(Thread.current, true)
            @news.pop(timeout: pause)
            @news.clear
            ThreadPool.mark_idle(Thread.current, false)
            look(@watched.keys.select { |watched| watched.due <= now })
          end
        end

        def look(all)
          all.each do |watched|
            watched.due = now + watched.every
            watched.look_around || @watched.delete(watched)
          end
        end

        # @return [Float] seconds until the next is due
        def pause = [(@watched.keys.map(&:due).min || (now + INTERVAL)) - now, 0.0].max

        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
