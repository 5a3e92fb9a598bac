# frozen_string_literal: true

module NeverBlock
  class Server
    class Metrics
      # Names the figures of a pool of PostgreSQL connections. They come from workers, so this file needs nothing of
      # PostgreSQL.
      #
      #   Postgres.each({size: 12, states: {idle: 3}}) { |name, type, help, value, labels| … }
      #   # "postgres_connections_limit", :gauge, "Connections …", 12, {}
      #   # "postgres_connections", :gauge, "Connections …", 3, {state: :idle}
      # @api private
      module Postgres
        # Name, type, help, the keys that lead to the figure; a label's name if the figure is a Hash of several.
        ROWS = [
          ["connections_limit", :gauge, "PostgreSQL connections that the pool may have.", [:size]],
          ["connections", :gauge, "PostgreSQL connections, by state.", [:states], :state],
          ["held_oldest_seconds", :gauge, "Seconds that the oldest holder has had its connection.", [:held_oldest]],
          ["in_flight", :gauge, "Statements that are on a connection.", [:in_flight]],
          ["queued", :gauge, "Statements and transactions that wait for a connection.", [:queued]],
          ["queued_oldest_seconds", :gauge, "For how long the oldest waiting statement or transaction has waited.",
            [:queued_oldest]],
          ["statements_total", :counter, "Statements that have a result, by how they used their connection.",
            [:statements], :connection],
          ["waits_total", :counter, "Waits for a connection that have ended.", %i[waits count]],
          ["wait_seconds_total", :counter, "Seconds of all waits for a connection that have ended.", %i[waits seconds]],
          ["wait_timeouts_total", :counter, "Waits for a connection that ended with a PoolTimeout.",
            %i[waits timeouts]],
          ["waits_refused_total", :counter, "Statements and transactions that were refused, because too many waited.",
            %i[waits refused]],
          ["retries_total", :counter, "Statements that were sent again, or moved to another connection, by reason.",
            [:retries], :reason],
          ["displaced_total", :counter, "Statements that were cancelled because others waited for them, and run again.",
            [:displaced]],
          ["timed_out_total", :counter, "Statements that ran for longer than query_timeout.", [:timed_out]],
          ["leaks_total", :counter, "Connections that were closed because session state was found on them.", [:leaks]],
          ["audits_total", :counter, "Audits of a connection's session state.", [:audits]],
          ["restored_total", :counter, "Resets of a connection's session state.", [:restored]],
          ["connections_opened_total", :counter, "Connections that were opened.", [:opened]],
          ["connections_lost_total", :counter, "Connections that were lost, or closed for their age or session state.",
            [:lost]],
          ["slow_shapes", :gauge, "Shapes of statements that are known to be slow.", %i[slow count]]
        ].freeze

        # @param figures [Object] of a source that is named :postgres
        # @return [Boolean] whether they are ours, and not those of another source with that name
        def self.pools?(figures)
          figures.is_a?(Hash) && figures.each_value.all? { |pool| pool.is_a?(Hash) && pool.key?(:states) }
        end

        # @param figures [Hash{Symbol=>Object}]
        # @yieldparam name [String]
        # @yieldparam type [Symbol]
        # @yieldparam help [String]
        # @yieldparam value [Numeric]
        # @yieldparam labels [Hash{Symbol=>Object}]
        # @return [void]
        def self.each(figures)
          ROWS.each do |name, type, help, path, label|
            figure = figures.dig(*path) or next
            several = label ? figure.map { |key, value| [value, {label => key}] } : [[figure, {}]]
            several.each { |value, labels| yield "postgres_#{name}", type, help, value, labels }
          end
        end
      end
    end
  end
end
