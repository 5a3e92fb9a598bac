# frozen_string_literal: true

require_relative "../../runtime/monotonic_clock"
require_relative "child"

module NeverBlock
  class Server
    module Cluster
      # The supervisor's view of a worker.
      #
      #   worker.stats[:in_flight]    # => 12
      #   worker.stop                 # => true: no request was cancelled
      # @api private
      class WorkerProcess < Child
        include MonotonicClock

        # Seconds that a worker gets beyond shutdown_timeout before it is killed.
        GRACE = 8

        # Seconds for reopening the logs; a worker with a running loop needs less.
        REOPENING = 5

        # Seconds for a command of the app.
        COMMAND = 10

        # How often, and after how many seconds each, the exit status is looked for that the template reports.
        LOOKS, LOOK = 50, 0.02

        # @return [Slot]
        attr_reader :slot

        # @return [TemplateProcess] the one that forked it
        attr_reader :template

        # @return [Hash{Symbol=>Object}] its latest statistics, about a second old
        attr_reader :stats

        # @return [String, nil] its own message about a failure
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
          @commands = {}
          @began = @heard = now
        end

        # @param message [Hash{Symbol=>Object}]
        # @return [void]
        def heard!(message)
          @heard = now
          @stats = message[:stats] if message[:stats]
          @cut = true if message[:whole] == false
          @reopenings << message[:failures] if message[:event] == "reopened"
          @commands[message[:id]]&.push([message[:good], message[:text]]) if message[:event] == "commanded"
        end

        # @return [Numeric] seconds since its last message
        def silence = now - @heard

        # @param seconds [Numeric] for which the supervisor could not receive
        # @return [void]
        def excuse(seconds)
          @heard = [@heard + seconds, now].min
        end

        # @return [Numeric] seconds since it was started
        def age = now - @began

        # @return [Boolean] whether max_in_flight requests run in it
        attr_accessor :full

        # Tells it to leave new connections to other workers, or no longer to.
        # @param flag [Boolean]
        # @return [void]
        def stand_back(flag)
          return if flag == @standing_back
          @standing_back = flag
          tell({do: "stand back", flag:})
        end

        # Lets it open its logs again.
        # @return [Array<String>] files and addresses that could not be opened
        def reopen_logs
          @reopenings.clear
          tell({do: "reopen"})
          @reopenings.pop(timeout: REOPENING) || ["#{self} has not answered within #{REOPENING} s: its loop is blocked"]
        end

        # Lets it run a command of the app.
        # @param name [String]
        # @param argument [String]
        # @return [Array(Boolean, String)] whether it has succeeded, and its text
        def command(name, argument)
          id = @command = @command.to_i + 1
          @commands[id] = answer = Thread::Queue.new
          tell({do: "command", id:, name:, argument:})
          answer.pop(timeout: COMMAND) || [false, "it has not answered within #{COMMAND} s: its loop is blocked"]
        ensure
          @commands.delete(id)
        end

        # From now on it no longer counts as serving.
        # @return [void]
        def leaving!
          @leaving = true
        end

        def leaving? = @leaving == true

        # @return [Boolean] whether a debugger is attached, which blocks its loop
        def debugged?
          @stats[:debugger] || File.read("/proc/#{pid}/status")[/^TracerPid:\s*(\d+)/, 1].to_i > 0
        rescue SystemCallError
          false
        end

        # Lets it finish its requests and waits for its end. It is killed if it takes longer than shutdown_timeout and
        # GRACE.
        # @param keepalive_grace [Numeric] seconds for which idle connections stay open
        # @return [Boolean] whether it ended by itself and cancelled no request
        def stop(keepalive_grace: 0)
          leaving!
          tell({do: "stop", timeout: @timeout, farewell: keepalive_grace})
          wait_stopped
        end

        # As {#stop}, for a worker that has been told to stop before.
        # @return [Boolean]
        def wait_stopped
          return !@cut if wait_end(@timeout + GRACE)
          kill
          false
        end

        # Cancels the requests that still run in a worker that is being stopped.
        # @return [void]
        def escalate = tell({do: "stop", timeout: 0})

        # A worker that has not been forked yet will find its channel closed, and end.
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

        # Waits for the template to report the exit status.
        # @return [String] one line about its end
        def exit_report
          # Without a template there is no report.
          LOOKS.times { break if template.nil? || template.ended? || wait_status(LOOK) }
          how = status ? " (#{status})" : ""
          "#{self} ended#{how}#{" before it was ready" unless ready?}#{": #{failure}" if failure}"
        end

        # @return [String]
        def to_s = "worker #{slot.number}#{" [#{pid}]" if pid}"
      end
    end
  end
end
