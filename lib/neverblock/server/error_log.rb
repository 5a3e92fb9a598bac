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

      # @param writer [#<<]
      # @param clock [#call] what time it is
      def initialize(writer, clock: Time.method(:now))
        @writer = writer
        @clock = clock
        @told = {}
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
      # @return [void]
      def slow(env, seconds, task)
        where = task.fiber&.backtrace || []
        write("slow", ["#{LogText.request(env)} runs for #{seconds.round} s: #{LogText.line(task.inspect)}", *shorten(where)].join(" | "))
      end

      # What a process does whose loop stands still. Called in a signal's handler, and written at once.
      # @param thread [Thread] the loop's
      # @param tasks [Array<Task>]
      # @return [void]
      def backtraces(thread, tasks)
        lines = [["runs", *shorten(thread.backtrace || [])], *tasks.map { |task| [LogText.line(task.inspect), *shorten(task.fiber&.backtrace || [])] }]
        lines.each { |line| @writer.immediately(entry("backtrace", line.join(" | "))) }
      end

      # Something that comes in floods: one line a second for each name, with the number of those left out.
      # @param name [Symbol]
      # @param message [String]
      # @return [void]
      def trouble(name, message)
        now = @clock.call
        last, left_out = @told[name]
        if last && now - last < 1
          @told[name] = [last, left_out + 1]
        else
          @told[name] = [now, 0]
          more = " (and #{left_out} more since #{stamp(last)})" if left_out&.positive?
          write("warn", "#{name}: #{LogText.line(message)}#{more}")
        end
      end

      # @param message [String] of what has failed
      def error(message)
        write("error", LogText.line(message))
      end

      # @param message [String]
      # @return [void]
      def info(message)
        write("info", LogText.line(message))
      end

      private

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
