# frozen_string_literal: true

require_relative "access_log"
require_relative "error_log"
require_relative "log_writer"

module NeverBlock
  class Server
    # What the server's core has to tell, to the logs that want it.
    #
    #   events = Events.new(configuration)
    #   core = Core.new(app, settings, events)    # calls failed, slow, access and trouble
    # @api private
    class Events
      # Seconds of access lines that are written together.
      GATHERED = 1.0

      @others = []

      # Logs of the app's own are opened again with the server's.
      # @yield in each process that has the app
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
        @accesses = configuration.blame(:access_log_to) { |sink| LogWriter.new(sink, delay: GATHERED) { |reason| lines_lost(reason) } }
        @access_log = AccessLog.new(@accesses, format: configuration[:access_log])
      end

      # An app raised. Called in the request's fiber.
      def failed(env, error) = @error_log.failed(env, error)

      # A request runs for longer than `slow_request`, or is cancelled after `request_timeout`.
      def slow(env, seconds, task, cancelled) = @error_log.slow(env, seconds, task, cancelled:)

      # A request was answered.
      def access(env, status, bytes, seconds) = @access_log&.call(env, status, bytes, seconds)

      # @return [#call, nil] told when as many requests have a place as may; must neither wait nor raise
      attr_writer :on_full

      # As many requests run, or wait for the processor, as may.
      def full = @on_full&.call

      # The server itself has met with something.
      def trouble(name, message) = @error_log.trouble(name, message)

      # @return [Array<LogWriter>]
      def writers = [@errors, *@accesses]

      # @return [Array<#run, #stop>] what has work of its own while the server runs, in the order in which to stop it
      def runners = [@error_log, *writers]

      # @return [Integer] log lines that could not be written
      def lost = writers.sum(&:lost)

      # Opens the logs' files again, after they were renamed. A log that can't be opened goes on where it is.
      # @return [Array<String>] a sentence for each of those, which the error log has too
      def reopen
        failures = [*writers.map { |writer| writer.method(:reopen) }, *Events.others].filter_map { |log| failure(log) }
        failures.each { |text| @error_log.error(text) }
      end

      private

      def lines_lost(reason) = @error_log.trouble(:access_log, "lines can't be written: #{reason}; #{@accesses.lost} are lost")

      def failure(log)
        log.call
        nil
      rescue ConfigurationError => error
        "#{error.message}. It goes on where it is"
      rescue => error
        "a log of the app's can't be opened again: #{error.message}"
      end
    end
  end
end
