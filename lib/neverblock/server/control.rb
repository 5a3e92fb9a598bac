# frozen_string_literal: true

require_relative "health"

module NeverBlock
  class Server
    # Takes an operator's commands, on a unix socket that only the server's user may use: `neverblock stop`, `restart`,
    # `reload`, `reopen` and `status` ask here.
    #
    #   POST /reload          # 202: it has been begun; the error log tells how it ends
    #   POST /stop            # 200 when all requests have ended, with one of ENDS
    #   POST /stop?wait=no    # 202
    #   POST /reopen          # 200 when the logs have been opened again, 500 with those that can't be
    #   GET /stats            # as Health
    # @api private
    class Control
      # What they do, as the signals that stand for them.
      COMMANDS = {"/stop" => "TERM", "/reload" => "USR1", "/restart" => "USR2"}.freeze
      # By whether all requests came to their own end.
      ENDS = {true => "stopped", false => "stopped; running requests were cancelled"}.freeze

      # @param subject [#signalled, #reopen, #stats]
      def initialize(subject)
        @subject = subject
        @health = Health.new(subject)
        @ended = Thread::Queue.new
      end

      # @param env [Hash]
      # @return [Array]
      def call(env)
        signal = COMMANDS[env["PATH_INFO"]]
        return @health.call(env) unless env["REQUEST_METHOD"] == "POST"
        return reopen if env["PATH_INFO"] == "/reopen"
        return @health.call(env) unless signal
        @subject.signalled(signal)
        (signal == "TERM" && env["QUERY_STRING"] != "wait=no") ? wait_for_end : answer(202, "begun")
      end

      # Lets those go on who wait for the server's end.
      # @param whole [Boolean, nil] whether all requests came to theirs; nil: it goes on, as another program
      # @return [void]
      def ended(whole)
        @whole = whole
        @ended.close
      end

      private

      def reopen
        failures = @subject.reopen
        failures.empty? ? answer(200, "the logs have been opened again") : answer(500, failures.join("\n"))
      end

      def wait_for_end
        @ended.pop
        ENDS[@whole].then { |text| text ? answer(200, text) : answer(409, "another program takes its place: ask once more") }
      end

      def answer(status, text) = [status, {"content-type" => "text/plain"}, ["#{text}\n"]]
    end
  end
end
