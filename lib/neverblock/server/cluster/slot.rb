# frozen_string_literal: true

require_relative "backoff"
require_relative "worker_process"

module NeverBlock
  class Server
    module Cluster
      # A numbered place for a worker: starts one, and another one whenever it has ended.
      #
      #   slot = Slot.new(0, workers)
      #   scope.spawn { slot.keep }
      #   slot.replace(template)    # => true when a new worker serves and the old one was told to end
      #   slot.stop
      # @api private
      class Slot
        # Seconds for which the replaced worker keeps idle connections open; new connections go to the other workers.
        KEEPALIVE_GRACE = 5

        # @return [Integer]
        attr_reader :number

        # @return [WorkerProcess, nil]
        attr_accessor :worker

        # @param number [Integer]
        # @param workers [Workers] starts the processes
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
        # @return [Boolean] false: the new worker did not become ready, and the old one goes on
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

        # No further worker is started here.
        # @return [WorkerProcess, nil] the present one
        def close
          @stopped = true
          @worker
        end

        # Closes the slot and stops its worker.
        # @return [Boolean] whether no request of it was cancelled
        def stop = close.nil? || @worker.stop

        private

        # @param worker [WorkerProcess, nil] nil: it could not be started, or the slot is closed
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

        # The old worker, if there is one, goes on.
        def give_up(fresh)
          return false.tap { @workers.retire(fresh) } if fresh.ready?
          @workers.say("#{fresh.exit_report}#{"; #{@worker} goes on" if @worker}", as: :error) unless @stopped
          false
        end

        # Without a template this waits until the app is loaded again. During the wait the slot may be closed, or filled
        # by {#replace}.
        def fill
          template = @workers.template
          @worker ||= @workers.start(self, template) unless @stopped
        end

        # A worker that was ready is replaced at once.
        def wait_after(worker)
          worker.ready? ? @backoff.reset : @backoff.wait
        end
      end
    end
  end
end
