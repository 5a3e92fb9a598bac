# frozen_string_literal: true

require_relative "../server/events"

module NeverBlock
  class CLI
    # The log of a proxy that `neverblock proxy` serves: the server's error log, opened once more. The server opens its
    # own only when the app is loaded.
    #
    #   log = ProxyLog.new(configuration)
    #   log.open                          # when the app is loaded: a mere check opens no file
    #   log.warn("an upstream is down")
    # @api private
    class ProxyLog
      # @param configuration [Server::Configuration]
      def initialize(configuration)
        @configuration = configuration
      end

      # @return [void]
      # @raise [ConfigurationError]
      def open
        writer = @configuration.blame(:error_log) { |sink| Server::LogWriter.new(sink) }
        Server::Events.on_reopen { writer.reopen }
        @log = Server::ErrorLog.new(writer)
      end

      # @param text [String]
      # @return [void]
      def warn(text) = @log&.warn(text)
    end
  end
end
