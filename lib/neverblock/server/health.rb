# frozen_string_literal: true

require "json"
require_relative "metrics"

module NeverBlock
  class Server
    # The Rack app of `health`: answers an orchestrator's probes on an address of its own.
    #
    #   curl http://127.0.0.1:9090/livez     # 200, or 503 when the process should be replaced
    #   curl http://127.0.0.1:9090/readyz    # 200, or 503 when no requests should be sent
    #   curl http://127.0.0.1:9090/stats     # the numbers of docs/operations.md, as JSON
    #   curl http://127.0.0.1:9090/metrics   # the same for Prometheus
    # @api private
    class Health
      # @param subject [#live?, #ready?, #stats] the supervisor, or in a single process {Heartbeat}
      def initialize(subject)
        @subject = subject
      end

      # @param env [Hash]
      # @return [Array]
      def call(env)
        return answer(405, "only GET") unless %w[GET HEAD].include?(env["REQUEST_METHOD"])
        case env["PATH_INFO"]
        when "/livez" then @subject.live? ? answer(200, "live") : answer(503, "not live")
        when "/readyz" then @subject.ready? ? answer(200, "ready") : answer(503, "not ready")
        when "/stats" then [200, {"content-type" => "application/json"}, [JSON.generate(@subject.stats), "\n"]]
        when "/metrics" then [200, {"content-type" => Metrics::CONTENT_TYPE}, [Metrics.new(@subject).text]]
        else answer(404, "there are /livez, /readyz, /stats and /metrics")
        end
      end

      private

      def answer(status, text) = [status, {"content-type" => "text/plain"}, ["#{text}\n"]]
    end
  end
end
