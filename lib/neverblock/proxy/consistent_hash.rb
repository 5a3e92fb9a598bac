# frozen_string_literal: true

require "digest"

module NeverBlock
  class Proxy
    # Chooses the same upstream for the same key, in each process and on each host: by rendezvous hashing (Thaler and
    # Ravishankar, 1998). An upstream that goes, or comes, moves its own share of the keys and no other's.
    #
    #   hash = ConsistentHash.new(:url, load: 1.25)
    #   hash.call(backends, hash.key(env))    # => a Backend
    #
    # The load is bounded (Mirrokni, Thorup and Zadimoghaddam, 2016): an upstream that would have more than `load` times
    # its share of the requests in flight is passed over, and the key's next one gets the request.
    # @api private
    class ConsistentHash
      # @param by [:url, :client, String] what the key is; a String: the name of a field of the request
      # @param load [Numeric] 1 or more
      def initialize(by, load:)
        @by = (String === by) ? "HTTP_#{by.upcase.tr("-", "_")}" : by
        @load = load
        @least = LeastRequests.new
      end

      # @param env [Hash] Rack's
      # @return [String, nil] nil: the request has none, and goes to the upstream with the fewest
      def key(env)
        case @by
        when :url then "#{env["HTTP_HOST"]}#{env["SCRIPT_NAME"]}#{env["PATH_INFO"]}?#{env["QUERY_STRING"]}"
        when :client then env["REMOTE_ADDR"] unless Forwarded::NO_ADDRESS.include?(env["REMOTE_ADDR"])
        else env[@by] unless env[@by].to_s.empty?
        end
      end

      # Called under the lock of {Backends}.
      # @param backends [Array<Backend>] one or more
      # @param key [String, nil]
      # @return [Backend]
      def call(backends, key)
        return @least.call(backends, key) if key.nil?
        most = (@load * (backends.sum(&:in_flight) + 1) / backends.size).ceil
        backends.select { |backend| backend.in_flight < most }.max_by { |backend| weight(backend, key) }
      end

      private

      def weight(backend, key) = Digest::SHA256.digest("#{backend.upstream.url} #{key}").unpack1("Q>")
    end
  end
end
