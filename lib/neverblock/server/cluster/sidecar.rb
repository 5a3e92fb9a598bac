# frozen_string_literal: true

require "shellwords"
require "time"
require_relative "../../clock"
require_relative "../../runtime/monotonic_clock"
require_relative "backoff"

module NeverBlock
  class Server
    module Cluster
      # A program that runs beside the workers as long as the server does, such as a job runner. It is started again
      # when it ends.
      #
      #   sidecar = Sidecar.new("bin/jobs", supervisor)
      #   scope.spawn { sidecar.keep }
      #   sidecar.to_h         # => {command: "bin/jobs", pid: 4711, state: :running, restarts: 0, …}
      #   sidecar.restart
      #   sidecar.stop(30)
      # @api private
      class Sidecar
        include MonotonicClock

        # After this many seconds a run counts as a success and resets the backoff.
        SETTLED = 10

        # @param command [String]
        # @param supervisor [#on, #say, #directory]
        def initialize(command, supervisor)
          @command = command
          @supervisor = supervisor
          @backoff = Backoff.new
          @ended = Thread::Queue.new
          @restarts = 0
        end

        # @return [Hash{Symbol=>Object}] as docs/operations.md has it
        def to_h
          {command: @command, pid: @pid, state: @pid ? :running : :down,
           restarts: @restarts, failure: @failure, at: @at}
        end

        # @return [void]
        def keep
          run until @stopped
        ensure
          @ended.close
        end

        # Ends it; {#keep} starts it again at once, in the new directory.
        # @return [void]
        def restart
          @restarting = true unless @resting
          signal(:TERM)
        end

        # @param timeout [Numeric] seconds after which it is killed
        # @return [void]
        def stop(timeout)
          @stopped = true
          return if @resting # it does not run, and won't be started again
          signal(:TERM)
          @ended.pop(timeout:)
          signal(:KILL)
          @ended.pop(timeout: 5)
        end

        private

        # The sidecar gets a TERM when this process is killed.
        # @return [Integer] the process number
        # @raise [SystemCallError] if there is no such program
        def start
          parent = Process.pid
          reader, writer = IO.pipe
          pid = Process.fork { become(writer, parent) }
          writer.close
          number = reader.read # empty: exec has closed the pipe; else the number of its error
          return pid if number.empty?
          reap(pid)
          raise SystemCallError.new(nil, Integer(number))
        ensure
          reader&.close
        end

        # In the child, which must not return from here. Until the trap it has the server's handler, which only queues
        # signals.
        def become(writer, parent)
          trap("TERM", "SYSTEM_DEFAULT")
          Scheduler.end_with_parent(Signal.list.fetch("TERM"), parent)
          Process.exec(*Shellwords.split(@command), chdir: @supervisor.directory)
        rescue SystemCallError => error
          writer.write(error.errno.to_s)
        ensure
          Process.exit!(127)
        end

        # A start that fails is repeated: memory may be short, or the program may come with the next deployment.
        def run
          began = now
          @pid = start
          signal(:TERM) if @stopped || @restarting # one of them may have been set during the start
          status = reap(@pid)
          @pid = nil
          ended(now - began, status) unless @stopped
        rescue SystemCallError => error
          failed("can't be started: #{error.message}")
          @supervisor.say("sidecar #{@command} #{@failure}; it is tried again", as: :error)
          rest
        end

        # Waits for the end of the process.
        # @return [Process::Status, nil] nil: the app has reaped it, by a handler for CHLD
        def reap(pid)
          Process.wait2(pid).last
        rescue Errno::ECHILD
          nil
        end

        def ended(lasted, status)
          asked, @restarting = @restarting, false
          return if asked
          failed("ended#{" (#{status})" if status}")
          @supervisor.on("sidecar ended", "sidecar #{@command} #{@failure}")
          @backoff.reset if lasted > SETTLED
          rest
        end

        def failed(words)
          @failure = words
          @at = Clock.time.utc.iso8601
          @restarts += 1
        end

        def rest
          @resting = true
          @backoff.wait
        ensure
          @resting = false
        end

        def signal(name)
          Process.kill(name, @pid) if @pid
        rescue Errno::ESRCH
          # it has just ended
        end
      end
    end
  end
end
