# frozen_string_literal: true

require_relative "health"

module NeverBlock
  class Server
    # Takes an operator's commands, on a unix socket that only the server's user may use: `neverblock stop`, `restart`,
    # `reload` and `status` ask here.
    #
    #   POST /reload    # 202: it has been begun; the error log tells how it ends
    #   GET /stats      # as Health
    # @api private
    class Control
      # What they do, as the signals that stand for them.
      COMMANDS = {"/stop" => "TERM", "/reload" => "USR1", "/restart" => "USR2"}.freeze

      # @param subject [#signalled, #stats]
      def initialize(subject)
        @subject = subject
        @health = Health.new(subject)
      end

      # @param env [Hash]
      # @return [Array]
      def call(env)
        signal = COMMANDS[env["PATH_INFO"]]
        return @health.call(env) unless signal && env["REQUEST_METHOD"] == "POST"
        @subject.signalled(signal)
        [202, {"content-type" => "text/plain"}, ["begun\n"]]
      end
    end
  end
end
