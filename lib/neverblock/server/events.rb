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
        @accesses = configuration.blame(:access_log_to) { |sink| LogWriter.new(sink, delay: GATHERED) }
        @access_log = AccessLog.new(@accesses, format: configuration[:access_log])
      end

      # An app raised. Called in the request's fiber.
      def failed(env, error) = @error_log.failed(env, error)

      # A request runs for longer than `slow_request`.
      def slow(env, seconds, task) = @error_log.slow(env, seconds, task)

      # A request was answered.
      def access(env, status, bytes, seconds) = @access_log&.call(env, status, bytes, seconds)

      # @return [#call, nil] told when as many requests run as may; must neither wait nor raise
      attr_writer :on_full

      # As many requests run as may.
      def full = @on_full&.call

      # The server itself has met with something.
      def trouble(name, message) = @error_log.trouble(name, message)

      # @return [Array<LogWriter>]
      def writers = [@errors, *@accesses]

      # @return [Integer] log lines that could not be written
      def lost = writers.sum(&:lost)

      # Opens the logs' files again, for whoever has renamed them. A log that can't be opened again stays as it is: its full disk,
      # or its folder that has gone, is no reason to stop serving.
      # @return [void]
      def reopen
        [*writers.map { |writer| writer.method(:reopen) }, *Events.others].each do |reopen|
          reopen.call
        rescue => error
          @error_log.error("a log can't be opened again, and the file that was open is written to further on: #{error.message}")
        end
      end
    end
  end
end
