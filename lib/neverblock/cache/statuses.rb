# frozen_string_literal: true

module NeverBlock
  class Cache
    # The status codes that the cache understands and stores (RFC 9111 §3).
    #
    #   Statuses.storable?(200)           # => true
    #   Statuses.storable?(404)           # => false
    #   Statuses.storable?(404, [404])    # => true: the option `statuses:`
    #
    # * 206 and 304 are parts of other responses. 1xx isn't final. 205 and unknown codes have rules that this cache does
    #   not implement.
    # * Errors are not stored unless the configuration names them. RFC 9110 §15.1 lets caches store 404, 405, 410, 414
    #   and 501. But a client can provoke all of these for a healthy URL - by a long header, an odd method, a hidden
    #   parameter -, and would then take that URL from all other clients.
    # * 302, 303 and 307 are stored, since their freshness is always explicit.
    # @api private
    module Statuses
      STORABLE = [200, 203, 204, 300, 301, 302, 303, 307, 308].freeze
      # Those that may have a heuristic lifetime (RFC 9110 §15.1); 206 is not stored.
      HEURISTIC = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501].freeze
      # Final ones that no configuration makes storable.
      NEVER = [205, 206, 304].freeze
      # For `must-understand` (RFC 9111 §5.2.2.3): RFC 9110 defines them.
      UNDERSTOOD = [*STORABLE, *400..417, 421, 422, 426, *500..505].freeze

      class << self
        # @param status [Integer]
        # @param further [Array<Integer>] those that the configuration adds
        # @return [Boolean]
        def storable?(status, further = []) = STORABLE.include?(status) || further.include?(status)

        # @param value [Object] of the option `statuses:`
        # @return [Boolean] whether it is a list of statuses that can be stored
        def list?(value) = Array === value && value.all? { |one| final?(one) && !NEVER.include?(one) }

        private

        def final?(status) = Integer === status && status.between?(200, 599)
      end
    end
  end
end
