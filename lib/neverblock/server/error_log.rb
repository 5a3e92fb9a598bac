# frozen_string_literal: true

require_relative "../clock"
require_relative "log_text"
require_relative "log_writer"

module NeverBlock
  class Server
    # The error log: one line for each error, whatever characters it contains.
    #
    #   ErrorLog.new(writer).failed(env, error)
    #   # 2026-11-21T19:38:15.123Z [4711] error: GET /cart HTTP/1.1: RuntimeError: no such item | app.rb:3:in `call' | …
    # @api private
    class ErrorLog
      # Frames of a backtrace that are kept, from its top and from its bottom: a SystemStackError has ten thousand.
      TOP, BOTTOM = 60, 20
      # Names of tasks with the same backtrace that are told.
      NAMES = 10
      # Seconds for which repeated messages of one name are summed up in one line.
      FLOOD = 1.0
      # Messages of one name since its last line.
      Flood = Struct.new(:since, :count, :message)
      private_constant :Flood

      # @return [ErrorLog] the one while the configured one is not open yet: standard error
      def self.early = new(LogWriter.new($stderr))

      # @param writer [#<<]
      # @param clock [#call] returns the time
      def initialize(writer, clock: Clock.method(:time))
        @writer = writer
        @clock = clock
        @floods = {}
        @bell = nil
      end

      # The app raised an exception.
      # @param env [Hash]
      # @param error [Exception]
      # @return [void]
      def failed(env, error)
        write("error", "#{LogText.request(env)}: #{describe(error)}")
      end

      # A task of the server or the app failed while no other task waited for it.
      # @param error [Exception]
      # @return [void]
      def task_failed(error)
        write("error", "a task failed: #{describe(error)}")
      end

      # A request runs for long. The line says what it waits for, and where.
      # @param seconds [Numeric]
      # @param task [Task] the request's
      # @param cancelled [Boolean] whether it is cancelled, after request_timeout
      # @return [void]
      def slow(env, seconds, task, cancelled: false)
        where = task.fiber&.backtrace || []
        fate = " and is cancelled (request_timeout)" if cancelled
        line = "#{LogText.request(env)} runs for #{seconds.round} s#{fate}: #{LogText.line(task.inspect)}"
        write("slow", [line, *shorten(where)].join(" | "))
      end

      # What a process does: a line for the code that runs, and one for each different backtrace of the tasks. Called in
      # a signal handler, and written at once, since the loop may be blocked.
      # @param thread [Thread] the loop's
      # @param tasks [Array<Task>]
      # @return [void]
      def backtraces(thread, tasks)
        alike = tasks.group_by { |task| task.backtrace || [] }.sort_by { |_, group| -group.size }
        lines = [["runs", thread.backtrace || []], *alike.map { |frames, group| [summary(group), frames] }]
        lines.each do |what, frames|
          @writer.immediately(entry("backtrace", [what, *shorten(frames)].join(" | ")))
        end
      end

      # A message that may come very often. The first of a name is written at once; those of each following second are
      # summed up in one line, with the last message and their number.
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

      # Writes the sums when their second is over, until it is stopped or cancelled. If it does not run, a sum is
      # written with the next message of its name.
      # @return [void]
      def run
        bell = @bell = Thread::Queue.new
        loop do
          until @floods.empty? || bell.closed?
            bell.pop(timeout: [FLOOD - @floods.each_value.map { |flood| age(flood) }.max, 0].max) # ends early at stop
            sum_up_all(FLOOD)
          end
          break unless bell.pop
        end
      ensure
        @bell = nil
        sum_up_all
      end

      # Ends {#run}, and writes the remaining sums.
      # @return [void]
      def stop
        @bell&.close
        sum_up_all
      end

      # A part of the server itself has failed.
      # @param what [String] such as "worker 0"
      # @param error [Exception]
      # @return [void]
      def broken(what, error)
        write("error", "#{what}: #{describe(error)}")
      end

      # @param message [String] about a failure
      def error(message)
        write("error", LogText.line(message))
      end

      # @param message [String] about a problem that the server corrects itself
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

      # Requests have their paths as names.
      def summary(tasks)
        oldest = tasks.max_by(&:age)
        return LogText.line(oldest.inspect) if tasks.one?
        names = tasks.map(&:name).tally.sort_by { |_, count| -count }
        told = names.first(NAMES).map { |name, count| "#{count} #{name.inspect}" }
        told << "#{names.size - NAMES} other names" if names.size > NAMES
        LogText.line("#{tasks.size} tasks (#{told.join(", ")}), " \
          "the oldest, of #{oldest.age.round(1)} s: #{oldest.inspect}")
      end

      def begin_flood(name, message)
        @bell << true if @bell && !@bell.closed? && @floods.empty?
        @floods[name] = Flood.new(Clock.now, 0, message)
        write("warn", "#{name}: #{LogText.line(message)}")
      end

      def sum_up(name, flood)
        sum = " (the last of #{flood.count} in #{age(flood).round(1)} s)" if flood.count > 1
        write("warn", "#{name}: #{LogText.line(flood.message)}#{sum}")
        flood.since = Clock.now
        flood.count = 0
      end

      def sum_up_all(least = 0)
        due = @floods.select { |_, flood| age(flood) >= least }
        due.each { |name, flood| flood.count.zero? ? @floods.delete(name) : sum_up(name, flood) }
      end

      def age(flood) = Clock.now - flood.since

      def write(level, text)
        @writer << entry(level, text)
      end

      def entry(level, text) = "#{stamp(@clock.call)} [#{Process.pid}] #{level}: #{text}\n"

      def stamp(time) = time.getutc.strftime("%Y-%m-%dT%H:%M:%S.%LZ")

      def describe(error, causes = 5)
        message = LogText.utf8(LogText.ask(error, :message))
        frames = shorten(Array(LogText.ask(error, :backtrace)))
        text = [LogText.line("#{error.class}: #{message}"), *frames].join(" | ")
        cause = LogText.ask(error, :cause)
        return text unless cause && causes.positive?
        "#{text} | caused by #{(Exception === cause) ? describe(cause, causes - 1) : LogText.line(cause)}"
      end

      def shorten(frames)
        left_out = frames.size - TOP - BOTTOM
        frames = [*frames.first(TOP), "… #{left_out} more …", *frames.last(BOTTOM)] if left_out > 1
        frames.map { |frame| LogText.line(frame) }
      end
    end
  end
end
