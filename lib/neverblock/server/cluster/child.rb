# frozen_string_literal: true

module NeverBlock
  class Server
    module Cluster
      # The supervisor's view of one of its processes: its messages, and its end, which the closed channel shows
      # whatever the cause was.
      #
      #   child = Child.new(channel)
      #   scope.spawn { child.listen { |message| … } }
      #   child.wait_ready(60)      # => true
      # @api private
      class Child
        # @return [Integer, nil] once it is known
        attr_accessor :pid

        # @return [String, nil] its exit status as text, once it is known
        attr_reader :status

        # @return [Channel]
        attr_reader :channel

        # @param channel [Channel]
        def initialize(channel)
          @channel = channel
          @ready = Thread::Queue.new
          @ended = Thread::Queue.new
          @told = Thread::Queue.new
        end

        # @param text [String] of a Process::Status
        def status=(text)
          @status = text
          @told.close
        end

        # @param seconds [Numeric]
        # @return [String, nil] its exit status as text, if it is reported in time
        def wait_status(seconds)
          @told.pop(timeout: seconds)
          @status
        end

        # Receives its messages until it ends.
        # @yieldparam message [Hash{Symbol=>Object}]
        # @return [void]
        def listen
          while (message, _ = @channel.receive)
            yield message
          end
        ensure
          @channel.close
          @ready.close
          @ended.close
        end

        # @return [Boolean] false if it has ended
        def tell(message, *ios) = @channel.send(message, *ios)

        # @return [void]
        def ready!
          @is_ready = true
          @ready.close
        end

        def ready? = @is_ready == true

        def ended? = @ended.closed?

        # @param seconds [Numeric, nil]
        # @return [Boolean] whether it is ready; false if it has ended
        def wait_ready(seconds)
          @ready.pop(timeout: seconds)
          ready? && !ended?
        end

        # @param seconds [Numeric, nil]
        # @return [Boolean] whether it has ended
        def wait_end(seconds = nil)
          @ended.pop(timeout: seconds)
          ended?
        end

        # @return [void]
        def signal(name)
          Process.kill(name, @pid) if @pid && !ended?
        rescue Errno::ESRCH
          # it has just ended
        end
      end
    end
  end
end
