# frozen_string_literal: true

require_relative "backoff"
require_relative "worker_process"

module NeverBlock
  class Server
    module Cluster
      # A worker's place: keeps one in it, whatever becomes of those before.
      #
      #   slot = Slot.new(0, workers)
      #   scope.spawn { slot.keep }
      #   slot.replace(template)    # => true when a new one serves, and the old one is on its way out
      #   slot.stop
      # @api private
      class Slot
        # Seconds that the old worker's idle connections get: others are there for new ones.
        KEEPALIVE_GRACE = 5

        # @return [Integer]
        attr_reader :number

        # @return [WorkerProcess, nil]
        attr_accessor :worker

        # @param number [Integer]
        # @param workers [Workers] which starts them
        def initialize(number, workers)
          @number = number
          @workers = workers
          @backoff = Backoff.new
          @turn = Thread::Mutex.new
        end

        # @return [void]
        def keep
          watch_over(@worker || fill) until @stopped
        end

        # @param template [TemplateProcess]
        # @return [Boolean] false if no new one came to serve, and the old one still does
        def replace(template)
          @turn.synchronize do
            return false if @stopped
            fresh = @workers.start(self, template) or return false
            serves = @workers.await(fresh)
            return give_up(fresh) if @stopped || !serves
            old, @worker = @worker, fresh
            @workers.retire(old, keepalive_grace: KEEPALIVE_GRACE) if old
            true
          end
        end

        # Takes nobody any more.
        # @return [WorkerProcess, nil] who is there
        def close
          @stopped = true
          @worker
        end

        # Ends for good.
        # @return [Boolean] whether its worker had nothing cut short
        def stop = close.nil? || @worker.stop

        private

        # @param worker [WorkerProcess, nil] nil: none could be started, or none is wanted
        def watch_over(worker)
          return (@backoff.wait unless @stopped) unless worker
          @workers.await(worker)
          worker.wait_end
          return unless worker.equal?(@worker) # it was replaced
          @worker = nil
          return if @stopped
          @workers.ended(worker)
          wait_after(worker)
        end

        # The old worker is as healthy as it was.
        def give_up(fresh)
          return false.tap { @workers.retire(fresh) } if fresh.ready?
          @workers.say("#{fresh.exit_report}#{"; #{@worker} goes on" if @worker}", as: :error) unless @stopped
          false
        end

        # Where the template has ended, this takes until the app is loaded again; meanwhile the slot can be closed, or filled by
        # {#replace}.
        def fill
          template = @workers.template
          @worker ||= @workers.start(self, template) unless @stopped
        end

        # One that has served is replaced at once.
        def wait_after(worker)
          worker.ready? ? @backoff.reset : @backoff.wait
        end
      end
    end
  end
end
