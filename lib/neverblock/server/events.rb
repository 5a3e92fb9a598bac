# frozen_string_literal: true

require_relative "access_log"
require_relative "error_log"
require_relative "log_writer"

module NeverBlock
  class Server
    # Passes events of the server's core to the logs.
    #
    #   events = Events.new(configuration)
    #   core = Core.new(app, settings, events)    # calls failed, slow, access and trouble
    # @api private
    class Events
      # Seconds of access lines that are written together.
      GATHERED = 1.0

      @others = []

      # Registers a block that reopens logs of the app; it is called when the server's logs are reopened.
      # @yield in each process that has loaded the app
      # @return [void]
      def self.on_reopen(&block) = @others << block

      # @return [Array<Proc>]
      def self.others = @others

      # @return [ErrorLog]
      attr_reader :error_log

      # @param configuration [Configuration]
      # @raise [ConfigurationError] if a log can't be opened
      def initialize(configuration)
        @errors = configuration.blame(:error_log) { |sink| LogWriter.new(sink) }
        @error_log = ErrorLog.new(@errors)
        return unless configuration[:access_log]
        @accesses = configuration.blame(:access_log_to) do |sink|
          LogWriter.new(sink, delay: GATHERED) { |reason| lines_lost(reason) }
        end
        @access_log = AccessLog.new(@accesses, format: configuration[:access_log])
      end

      # The app raised an exception. Called in the request's fiber.
      def failed(env, error) = @error_log.failed(env, error)

      # A request runs for longer than `slow_request`, or is cancelled after `request_timeout`.
      def slow(env, seconds, task, cancelled) = @error_log.slow(env, seconds, task, cancelled:)

      # A request got its response. What the app has put into the env may raise where it is read.
      def access(env, status, bytes, seconds)
        @access_log&.call(env, status, bytes, seconds)
      rescue => error
        @accesses.lose(1, LogText.error(error))
      end

      # @return [#call, nil] called when max_in_flight requests run or are ready; it must neither wait nor raise
      attr_writer :on_full

      # max_in_flight requests run or are ready.
      def full = @on_full&.call

      # A problem of the server itself.
      def trouble(name, message) = @error_log.trouble(name, message)

      # @return [Array<LogWriter>]
      def writers = [@errors, *@accesses]

      # @return [Array<#run, #stop>] logs that need a task of their own, in the order in which to stop them
      def runners = [@error_log, *writers]

      # Writes what waits, and each further line at once: the loop was left with the {#runners} in it.
      # @return [void]
      def leave_loop
        @error_log.stop
        writers.each(&:leave_loop)
      end

      # @return [Integer] log lines that could not be written
      def lost = writers.sum(&:lost)

      # Opens the log files again, after they were renamed. A log whose new file can't be opened goes on with the old
      # one.
      # @return [Array<String>] a sentence for each such log, which the error log has too
      def reopen
        failures = [*writers.map { |writer| writer.method(:reopen) }, *Events.others].filter_map { |log| failure(log) }
        failures.each { |text| @error_log.error(text) }
      end

      private

      def lines_lost(reason)
        @error_log.trouble(:access_log, "lines can't be written: #{reason}; #{@accesses.lost} are lost")
      end

      def failure(log)
        log.call
        nil
      rescue ConfigurationError => error
        "#{error.message}. Its old file stays open"
      rescue => error
        "a log of the app's can't be opened again: #{error.message}"
      end
    end
  end
end
