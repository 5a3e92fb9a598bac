# frozen_string_literal: true

require_relative "control"
require_relative "health"

module NeverBlock
  class Server
    # The small servers beside the app's: `health` and `control`.
    #
    #   endpoints = Endpoints.new(configuration, supervisor, $stderr)
    #   endpoints.start     # inside a loop, or on threads of their own
    #   endpoints.stop
    # @api private
    class Endpoints
      # @param configuration [Configuration]
      # @param subject [#live?, #ready?, #stats, #signalled]
      # @param log [#write] for what they have to say
      def initialize(configuration, subject, log)
        limits = {error_log: log, max_in_flight: 20, max_connections: 200, idle_timeout: 5, shutdown_timeout: 1}
        @servers = []
        @servers << Server.new(Health.new(subject), bind: configuration[:health], **limits) if configuration[:health]
        path = configuration[:control]
        @servers << Server.new(Control.new(subject), bind: "unix://#{File.expand_path(path)}?mode=0600", **limits) if path
        @servers.each { |server| server.yields = true }
      end

      # @return [void]
      # @raise [BindError]
      def start = @servers.each(&:start)

      # @return [void]
      def stop = @servers.each { |server| server.stop(timeout: 0) }
    end
  end
end
