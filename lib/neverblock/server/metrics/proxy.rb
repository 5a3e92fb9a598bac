# frozen_string_literal: true

module NeverBlock
  class Server
    class Metrics
      # Names the figures of a proxy's upstream. They come from workers, so this file needs nothing of the proxy.
      #
      #   Proxy.each({in_flight: 3, requests: {"2xx": 9}}) { |name, type, help, value, labels| … }
      #   # "upstream_requests_in_flight", :gauge, "Requests …", 3, {}
      #   # "upstream_requests_total", :counter, "Requests …", 9, {outcome: :"2xx"}
      # @api private
      module Proxy
        # Name, type, help, the keys that lead to the figure.
        ROWS = [
          ["requests_in_flight", :gauge, "Requests that the upstream has.", [:in_flight]],
          ["out", :gauge, "1 while the upstream is left alone after failures.", [:out]],
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
          ["connections_reused_total", :counter, "Requests that were sent on a kept connection.",
            %i[connections reused]]
        ].freeze

        # @param figures [Object] of a source that is named :proxy
        # @return [Boolean] whether they are ours, and not those of another source with that name
        def self.upstreams?(figures)
          figures.is_a?(Hash) && figures.each_value.all? { |one| one.is_a?(Hash) && one.key?(:connect_failures) }
        end

        # @param figures [Hash{Symbol=>Object}]
        # @yieldparam name [String]
        # @yieldparam type [Symbol]
        # @yieldparam help [String]
        # @yieldparam value [Numeric]
        # @yieldparam labels [Hash{Symbol=>Object}]
        # @return [void]
        def self.each(figures)
          ROWS.each do |name, type, help, path|
            figure = figures.dig(*path)
            name = "upstream_#{name}"
            case figure
            when Hash then figure.each { |outcome, count| yield name, type, help, count, {outcome:} }
            when true, false then yield name, type, help, figure ? 1 : 0, {}
            when Numeric then yield name, type, help, figure, {}
            end
          end
        end
      end
    end
  end
end
