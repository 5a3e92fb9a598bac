# frozen_string_literal: true

# wrk with so many connections, each sending as soon as it was answered; system calls
# are counted once, after the first round's figures are taken.
#
#   Bench::Servers::Saturated.new(row, seconds: 2).call(server)   # => {"rate" => 120_000.0, "p99" => 0.0009, ...}
module Bench
  class Servers
    class Saturated
      # @param row [Row]
      # @param seconds [Numeric]
      # @param count_calls [Boolean]
      def initialize(row, seconds:, count_calls: true)
        @row = row
        @seconds = seconds
        @count_calls = count_calls && SystemCalls.available?
      end

      # @param server [Running]
      # @return [Hash{String=>Object}]
      # @raise [Failure]
      def call(server)
        checked = server.expect(@row)
        Wrk.warm_up(server.port, @row, Servers.warm_up(@seconds))
        figures = server.watch { Wrk.run(server.port, @row, @seconds) }
        {**figures, **checked, **calls(server)}
      end

      private

      def calls(server)
        return {} unless @count_calls
        @count_calls = false
        {"system_calls" => TracedCalls.new(server).per_request(@row)}
      rescue Failure => failure
        {"no_calls" => failure.message}
      end
    end
  end
end
