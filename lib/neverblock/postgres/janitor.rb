# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The thread of a process that periodically looks after idle connections. It has them audited, since session state
    # such as a lock would otherwise stay until the next statement. {Turnover} closes old ones and probes silent ones.
    #
    #   Janitor.watch(multiplexer)      # calls #look_around every #every seconds, as long as that returns true
    #
    # It is a thread because a fiber would keep its loop from ending.
    # @api private
    module Janitor
      # Seconds between two audits of a connection.
      INTERVAL = 60

      @watched = ObjectSpace::WeakMap.new
      @lock = Thread::Mutex.new
      @news = Thread::Queue.new

      class << self
        include MonotonicClock

        # @param watched [#look_around, #every, #due=]
        # @return [void]
        def watch(watched)
          return if @watched.key?(watched) && @thread&.alive?
          @lock.synchronize do
            watched.due = now + watched.every
            @watched[watched] = true
            # a forked child has none
            @thread = ThreadPool.start_idle("neverblock postgres") { run } unless @thread&.alive?
          end
          @news << true # wakes the thread: this one may be due before the others
        end

        # Calls all at once, in the caller's thread: for tests.
        # @return [void]
        def run_once = look(@watched.keys)

        private

        def run
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

        # @return [Float] seconds until the next one is due
        def pause = [(@watched.keys.map(&:due).min || (now + INTERVAL)) - now, 0.0].max
      end
    end
  end
end
