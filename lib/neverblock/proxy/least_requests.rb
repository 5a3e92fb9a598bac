# frozen_string_literal: true

module NeverBlock
  class Proxy
    # Chooses the upstream with the fewest requests in flight. Equal ones take turns.
    #
    #   LeastRequests.new.call(backends, nil)    # => a Backend
    # @api private
    class LeastRequests
      def initialize
        @turn = 0
      end

      # @param _env [Hash]
      # @return [nil]
      def key(_env) = nil

      # Called under the lock of {Backends}.
      # @param backends [Array<Backend>] one or more
      # @param _key [nil]
      # @return [Backend]
      def call(backends, _key)
        return backends.first if backends.size < 2
        fewest = backends.map(&:in_flight).min
        equal = backends.select { |backend| backend.in_flight == fewest }
        @turn += 1
        equal[@turn % equal.size]
      end
    end
  end
end
