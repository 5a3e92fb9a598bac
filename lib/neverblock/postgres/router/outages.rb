# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Router
      # State while connections can't be opened: {Backoff} determines how long the router pauses between attempts.
      # @api private
      module Outages
        # The connection could not be opened, and the next request in the queue tries. If the server is unreachable, it
        # pauses first. If no connection is left at all, the whole queue is woken to learn why.
        # @param unreachable [Exception, nil] the error if the server is unreachable
        def not_opened(request, unreachable = nil)
          @opening -= 1
          @opening_requests.delete(request)
          @held -= 1 if request.exclusive?
          first = unreachable && !@backoff.active? # from now on the waiting requests look by themselves
          @backoff.failed(unreachable) if unreachable
          (first || hopeless?(-Float::INFINITY)) ? empty_queues : nudge
        end

        # @param time [Float] when a request began to wait, on the monotonic clock
        # @return [Exception, nil] why it must not wait any longer
        def hopeless?(time) = (@backoff.since(time) if @connections.empty? && @opening.zero?)

        # @return [Float, nil] seconds after which waiting requests must look again: the end of a pause wakes none
        def pause
          return unless @backoff.active?
          @opening.zero? ? @backoff.left + 0.001 : Backoff::LONGEST_PAUSE
        end

        private

        # The server is reachable again: queued requests open the other connections.
        def recovered
          @backoff.succeeded
          (@limit - @connections.size - @opening).times { nudge }
        end

        # After a failure connections are opened one at a time.
        def opens? = !@backoff.active? || (@opening.zero? && @backoff.left.zero?)
      end
    end
  end
end
