# frozen_string_literal: true

require_relative "child"

module NeverBlock
  class Server
    module Cluster
      # A worker, as the supervisor sees it.
      #
      #   worker.stats[:in_flight]    # => 12
      #   worker.stop                 # => true: it had nothing to cut short
      # @api private
      class WorkerProcess < Child
        # Seconds that a worker gets beyond the time for its requests, before it is killed.
        GRACE = 8

        # Seconds in which a worker whose loop turns has opened its logs again.
        REOPENING = 5

        # How often the template is looked at that is to tell how it ended, and after how many seconds each.
        LOOKS, LOOK = 50, 0.02

        # @return [Slot]
        attr_reader :slot

        # @return [TemplateProcess] that has forked it
        attr_reader :template

        # @return [Hash{Symbol=>Object}] of its server, about a second old
        attr_reader :stats

        # @return [String, nil] what it has failed of, by its own words
        attr_accessor :failure

        # @param channel [Channel]
        # @param slot [Slot]
        # @param template [TemplateProcess]
        # @param timeout [Numeric] seconds for its requests when it is stopped
        def initialize(channel, slot:, template:, timeout:)
          super(channel)
          @slot = slot
          @template = template
          @timeout = timeout
          @stats = {}
          @reopenings = Thread::Queue.new
          @began = @heard = now
        end

        # @param message [Hash{Symbol=>Object}]
        # @return [void]
        def heard!(message)
          @heard = now
          @stats = message[:stats] if message[:stats]
          @cut = true if message[:whole] == false
          @reopenings << message[:failures] if message[:event] == "reopened"
        end

        # @return [Numeric] seconds since it was heard
        def silence = now - @heard

        # @param seconds [Numeric] for which it could not be heard
        # @return [void]
        def excuse(seconds)
          @heard = [@heard + seconds, now].min
        end

        # @return [Numeric] seconds since it was started
        def age = now - @began

        # @return [Boolean] whether as many requests have a place in it as may
        attr_accessor :full

        # Whether others are to take the new connections.
        # @param flag [Boolean]
        # @return [void]
        def stand_back(flag)
          return if flag == @standing_back
          @standing_back = flag
          tell({do: "stand back", flag:})
        end

        # Has it open its logs again.
        # @return [Array<String>] what could not be
        def reopen_logs
          @reopenings.clear
          tell({do: "reopen"})
          @reopenings.pop(timeout: REOPENING) || ["#{self} has not answered within #{REOPENING} s: its loop stands still"]
        end

        # It will not be there for long: others need not take it for one that serves.
        # @return [void]
        def leaving!
          @leaving = true
        end

        def leaving? = @leaving == true

        # @return [Boolean] whether somebody looks at it with a debugger, which stops it
        def debugged?
          @stats[:debugger] || File.read("/proc/#{pid}/status")[/^TracerPid:\s*(\d+)/, 1].to_i > 0
        rescue SystemCallError
          false
        end

        # Lets it finish and waits for its end. What takes longer is killed.
        # @param keepalive_grace [Numeric] seconds for connections that ask nothing
        # @return [Boolean] whether it ended by itself, and cut nothing short
        def stop(keepalive_grace: 0)
          leaving!
          tell({do: "stop", timeout: @timeout, farewell: keepalive_grace})
          wait_stopped
        end

        # @return [Boolean] the same of one that has been told before
        def wait_stopped
          return !@cut if wait_end(@timeout + GRACE)
          kill
          false
        end

        # Cancels what still runs in one that is being stopped.
        # @return [void]
        def escalate = tell({do: "stop", timeout: 0})

        # One that is yet to be forked finds nobody then, and ends.
        # @return [void]
        def kill
          leaving!
          @pid ? signal(:KILL) : channel.close
          wait_end(GRACE)
        end

        # @return [Symbol]
        def state
          if leaving? then :leaving
          else ready? ? :serving : :starting
          end
        end

        # @return [Hash{Symbol=>Object}] as docs/operations.md has it
        def to_h = {number: slot.number, pid:, state:, age: age.round(1), stats:}

        # Waits for the template to tell how it ended.
        # @return [String] what is to be said of its end
        def exit_report
          LOOKS.times { break if template.nil? || template.ended? || wait_status(LOOK) } # without a template nobody tells
          how = status ? " (#{status})" : ""
          "#{self} ended#{how}#{" before it was ready" unless ready?}#{": #{failure}" if failure}"
        end

        # @return [String]
        def to_s = "worker #{slot.number}#{" [#{pid}]" if pid}"

        private

        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
