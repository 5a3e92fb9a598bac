# frozen_string_literal: true

require_relative "log_text"

module NeverBlock
  class Server
    # What went wrong, a line each, whatever is in it.
    #
    #   ErrorLog.new(writer).failed(env, error)
    #   # 2026-11-21T19:38:15.123Z [4711] error: GET /cart HTTP/1.1: RuntimeError: no such item | app.rb:3:in `call' | …
    # @api private
    class ErrorLog
      # Of a backtrace, from its top and from its bottom: a SystemStackError has ten thousand.
      TOP, BOTTOM = 60, 20
      # Seconds of one trouble that become one line.
      FLOOD = 1.0
      # What has come of one trouble since its last line.
      Flood = Struct.new(:since, :count, :message)
      private_constant :Flood

      # @param writer [#<<]
      # @param clock [#call] what time it is
      # @param timer [#call] seconds, which no change of the time disturbs
      def initialize(writer, clock: Time.method(:now), timer: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
        @writer = writer
        @clock = clock
        @timer = timer
        @floods = {}
        @bell = nil
      end

      # An app raised.
      # @param env [Hash]
      # @param error [Exception]
      # @return [void]
      def failed(env, error)
        write("error", "#{LogText.request(env)}: #{describe(error)}")
      end

      # A task of the server, or one that the app has spawned, failed and nobody waited for it.
      # @param error [Exception]
      # @return [void]
      def task_failed(error)
        write("error", "a task failed: #{describe(error)}")
      end

      # A request runs for long: what it waits for, and where.
      # @param seconds [Numeric]
      # @param task [Task] that runs it
      # @param cancelled [Boolean] whether it is, after request_timeout
      # @return [void]
      def slow(env, seconds, task, cancelled: false)
        where = task.fiber&.backtrace || []
        write("slow", ["#{LogText.request(env)} runs for #{seconds.round} s#{" and is cancelled (request_timeout)" if cancelled}: #{LogText.line(task.inspect)}", *shorten(where)].join(" | "))
      end

      # What a process does whose loop stands still. Called in a signal's handler, and written at once.
      # @param thread [Thread] the loop's
      # @param tasks [Array<Task>]
      # @return [void]
      def backtraces(thread, tasks)
        lines = [["runs", *shorten(thread.backtrace || [])], *tasks.map { |task| [LogText.line(task.inspect), *shorten(task.fiber&.backtrace || [])] }]
        lines.each { |line| @writer.immediately(entry("backtrace", line.join(" | "))) }
      end

      # Something that comes in floods: the first of a name is told at once, and those of each second after it in one
      # line, which has the last of them and their number.
      # @param name [Symbol]
      # @param message [String]
      # @return [void]
      def trouble(name, message)
        flood = @floods[name]
        return begin_flood(name, message) unless flood
        flood.count += 1
        flood.message = message
        sum_up(name, flood) if age(flood) >= FLOOD
      end

      # Tells of floods when their second is over, until it is stopped or cancelled. Without it, with the next of them.
      # @return [void]
      def run
        bell = @bell = Thread::Queue.new
        loop do
          until @floods.empty? || bell.closed?
            bell.pop(timeout: [FLOOD - @floods.each_value.map { |flood| age(flood) }.max, 0].max) # cut short by stop
            sum_up_all(FLOOD)
          end
          break unless bell.pop
        end
      ensure
        @bell = nil
        sum_up_all
      end

      # Ends {#run}, and tells the rest.
      # @return [void]
      def stop
        @bell&.close
        sum_up_all
      end

      # Something of the server's own has failed.
      # @param what [String] such as "worker 0"
      # @param error [Exception]
      # @return [void]
      def broken(what, error)
        write("error", "#{what}: #{describe(error)}")
      end

      # @param message [String] of what has failed
      def error(message)
        write("error", LogText.line(message))
      end

      # @param message [String] of what should not be, and is healed
      # @return [void]
      def warn(message)
        write("warn", LogText.line(message))
      end

      # @param message [String]
      # @return [void]
      def info(message)
        write("info", LogText.line(message))
      end

      private

      def begin_flood(name, message)
        @bell << true if @bell && !@bell.closed? && @floods.empty?
        @floods[name] = Flood.new(@timer.call, 0, message)
        write("warn", "#{name}: #{LogText.line(message)}")
      end

      def sum_up(name, flood)
        write("warn", "#{name}: #{LogText.line(flood.message)}#{" (the last of #{flood.count} in #{age(flood).round(1)} s)" if flood.count > 1}")
        flood.since = @timer.call
        flood.count = 0
      end

      def sum_up_all(least = 0)
        due = @floods.select { |_, flood| age(flood) >= least }
        due.each { |name, flood| flood.count.zero? ? @floods.delete(name) : sum_up(name, flood) }
      end

      def age(flood) = @timer.call - flood.since

      def write(level, text)
        @writer << entry(level, text)
      end

      def entry(level, text) = "#{stamp(@clock.call)} [#{Process.pid}] #{level}: #{text}\n"

      def stamp(time) = time.getutc.strftime("%Y-%m-%dT%H:%M:%S.%LZ")

      def describe(error, causes = 5)
        text = [LogText.line("#{error.class}: #{message(error)}"), *frames(error)].join(" | ")
        cause = error.cause
        text = "#{text} | caused by #{describe(cause, causes - 1)}" if cause && causes.positive?
        text
      end

      # An exception's own method may be the next thing to fail.
      def message(error)
        LogText.utf8(error.message)
      rescue => second
        "(its message raised #{second.class})"
      end

      def frames(error) = shorten(error.backtrace || [])

      def shorten(frames)
        left_out = frames.size - TOP - BOTTOM
        frames = [*frames.first(TOP), "… #{left_out} more …", *frames.last(BOTTOM)] if left_out > 1
        frames.map { |frame| LogText.line(frame) }
      end
    end
  end
end
