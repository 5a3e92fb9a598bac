# frozen_string_literal: true

require_relative "../../runtime/monotonic_clock"
require_relative "backoff"

module NeverBlock
  class Server
    module Cluster
      # Checks the workers once a second: replaces one that is silent (`worker_timeout`), has grown, or has answered
      # enough requests (`recycle`).
      #
      #   scope.spawn { WorkerMonitor.new(configuration, supervisor).run }
      # @api private
      class WorkerMonitor
        include MonotonicClock

        INTERVAL = 1.0
        # Seconds between the request for a silent worker's backtraces and its end.
        LAST_WORDS = 2
        # A random share of each limit, so that workers of one age are not replaced at the same time.
        JITTER = 0.1
        # Workers that are recycled at the same time.
        AT_ONCE = 1

        # @param configuration [Configuration]
        # @param supervisor [#workers, #say, #recycle]
        def initialize(configuration, supervisor, random: Random.new)
          @timeout = configuration[:worker_timeout]
          @most_memory = configuration[:recycle_memory]
          @most_requests = configuration[:recycle_requests]
          @supervisor = supervisor
          @random = random
          @limits = {}.compare_by_identity
          @replaced = [] # workers that are being recycled
          @backoff = Backoff.new
          @not_before = 0
        end

        # @return [void]
        def run
          return unless @timeout || @most_memory || @most_requests
          loop do
            late = rest
            workers = @supervisor.workers.select(&:ready?)
            workers.each { |worker| worker.excuse(late) }
            workers.each { |worker| silent(worker) } if @timeout
            recycle(workers)
          end
        end

        private

        # @return [Numeric] seconds for which this process itself was stopped (SIGSTOP, docker pause) and could not
        #   receive
        def rest
          began = now
          sleep INTERVAL
          now - began - INTERVAL
        end

        # A worker whose loop is blocked sends no pulse. A debugger blocks it on purpose.
        def silent(worker)
          return if worker.silence < @timeout || worker.leaving? || worker.debugged?
          worker.leaving!
          @supervisor.say("#{worker} has been silent for #{worker.silence.round} s (worker_timeout): " \
            "it is asked for its backtraces, then replaced", as: :error)
          worker.signal(:QUIT)
          @supervisor.spawn("#{worker} is silent") do
            worker.kill unless worker.wait_end(LAST_WORDS)
          end
        end

        def recycle(workers)
          return if @replaced.size >= AT_ONCE || now < @not_before
          worker = workers.find { |one| !one.leaving? && reason(one) } or return
          @supervisor.say("#{worker} #{reason(worker)}: it is replaced")
          @replaced << worker
          @supervisor.spawn("#{worker} is recycled") do
            replace(worker)
          ensure
            @replaced.delete(worker)
          end
        end

        # If a worker can't be replaced it goes on serving, and recycling pauses: the next worker could not be replaced
        # either.
        def replace(worker)
          return @backoff.reset if @supervisor.recycle(worker)
          @not_before = now + @backoff.next_delay
        end

        def reason(worker)
          requests, memory = worker.stats.values_at(:answered, :memory).map(&:to_i)
          limits = @limits[worker] ||= {memory: jittered(@most_memory), requests: jittered(@most_requests)}
          if limits[:requests] && requests >= limits[:requests] then "has answered #{requests} requests"
          elsif limits[:memory] && memory >= limits[:memory] then "takes #{memory >> 20} MiB"
          end
        end

        def jittered(limit) = limit && (limit * (1 + @random.rand(-JITTER..JITTER))).round
      end
    end
  end
end
