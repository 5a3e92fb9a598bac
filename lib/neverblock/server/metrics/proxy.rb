# frozen_string_literal: true

require_relative "figures"

module NeverBlock
  class Server
    class Metrics
      # The figures of a proxy's upstream.
      #
      #   PROXY.each({in_flight: 3}) { |name, type, help, value, labels| … }
      #   # "upstream_requests_in_flight", :gauge, "Requests …", 3, {}
      # @api private
      PROXY = Figures.new("upstream", :connect_failures, [
        ["requests_in_flight", :gauge, "Requests that the upstream has.", [:in_flight]],
        ["out", :gauge, "1 from when the upstream is left alone to its next response.", [:out]],
        ["out_seconds", :gauge, "For how long it is still left alone; 0 while it is out: a request tries it.",
          [:out_seconds]],
        ["down", :gauge, "1 while the upstream's checks fail.", [:down]],
        ["checks_passed_total", :counter, "Checks of the upstream that have passed.", [:checks_passed]],
        ["checks_failed_total", :counter, "Checks of the upstream that have failed.", [:checks_failed]],
        ["requests_total", :counter,
          "Responses of the upstream by the class of their status, and requests that have failed.", [:requests]],
        ["connect_failures_total", :counter, "Requests for which there was no connection.", [:connect_failures]],
        ["retries_total", :counter, "Requests that were sent again, since a kept connection had been closed.",
          [:retries]],
        ["tunnels_total", :counter, "Connections that have changed to another protocol.", [:tunnels]],
        ["taken_out_total", :counter, "Times that the upstream was left alone.", [:taken_out]],
        ["connections", :gauge, "Connections to the upstream.", %i[connections open]],
        ["waiting", :gauge, "Requests that wait for a connection.", %i[connections waiting]],
        ["connections_opened_total", :counter, "Connections that were opened.", %i[connections opened]],
        ["connections_reused_total", :counter, "Requests that were sent on a kept connection.", %i[connections reused]]
      ])
    end
  end
end
