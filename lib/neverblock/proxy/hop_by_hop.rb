# frozen_string_literal: true

require_relative "../runtime/http_fields"

module NeverBlock
  class Proxy
    # Fields that a proxy does not pass on (RFC 9110, section 7.6.1): those between two neighbours, those that
    # Connection names, and those by which an app tells its proxy to send a file.
    #
    #   HopByHop.listed(["close, x-trace"])                        # => {"close" => true, "x-trace" => true}
    #   HopByHop.response(["via", "a", "keep-alive", "5"])         # => {"via" => "a"}
    # @api private
    module HopByHop
      NAMES = HttpFields::HOP_BY_HOP
      # Instructions for the proxy itself. Those of clients are forged.
      INTERNAL = (HttpFields::CONTENT_ELSEWHERE + %w[
        x-accel-buffering x-accel-charset x-accel-expires x-accel-limit-rate x-accel-mapping x-sendfile-type
      ]).freeze
      ELSEWHERE = HttpFields::CONTENT_ELSEWHERE.to_h { |name| [name, true] }.freeze
      # Without them the response would look as if it were for all.
      END_TO_END = HttpFields::DECISIVE.to_h { |name| [name, true] }.freeze
      # Rack's own names, which a server would take for an instruction of the app. "status" is forbidden by Rack.
      RACK = "rack."
      CONNECTION = "connection"
      # Values that name no field.
      COMMON = %w[keep-alive close Keep-Alive Close].freeze
      # What decides how a message is read, how long it is kept, which client may have it, and what a browser may do
      # with it: a recipient could take it for a part of the head (RFC 9110, section 6.5.1). Content-Digest, ETag and
      # Proxy-Status may be trailers (RFC 9530; RFC 9110, section 8.8.3; RFC 9209, section 2).
      OF_HEADS = /\A(?:accept-|access-control-|content-(?!digest\z)|cross-origin-|if-|proxy-(?!status\z)|sec-|
        surrogate-|x-content-type-|x-frame-|x-xss-|
        (?:allow|alt-svc|authorization|clear-site-data|cookie|expect|forwarded|host|link|location|max-forwards|
          origin-agent-cluster|permissions-policy|public-key-pins|range|referrer-policy|refresh|retry-after|
          service-worker-allowed|strict-transport-security|timing-allow-origin|warning|www-authenticate)\z)|
        cache-control\z/x
      ONLY_HEADS = END_TO_END.except("etag").freeze
      DROPPED = [*NAMES, *INTERNAL, "content-length", "status"].to_h { |name| [name, true] }.freeze
      NOTHING = {}.freeze
      private_constant :ELSEWHERE, :END_TO_END, :OF_HEADS, :ONLY_HEADS, :RACK, :CONNECTION, :COMMON, :DROPPED, :NOTHING

      class << self
        # @param values [Array<String>] of Connection
        # @return [Hash{String=>true}] the names in lower case
        def listed(values)
          return NOTHING if values.empty? || (values.size == 1 && COMMON.include?(values.first))
          values.flat_map { |value| value.downcase.split(",") }.to_h { |name| [name.strip, true] }
        end

        # @param lines [Array<String>] of a response of an upstream: names in lower case, each with its value
        # @yield if one that is not passed on says where the content is
        # @return [Hash{String=>String, Array<String>}] those that are for the client, without Content-Length
        def response(lines)
          kept = {}
          connection = nil
          at = -2
          while (name = lines[at += 2])
            value = lines[at + 1]
            if DROPPED[name]
              connection = connection ? [*connection, value] : value if name == CONNECTION
              yield if ELSEWHERE[name] && block_given?
            elsif !name.start_with?(RACK)
              before = kept[name]
              kept[name] = before ? [*before, value] : value
            end
          end
          return kept if connection.nil? || COMMON.include?(connection)
          listed([*connection]).each_key { |name| kept.delete(name) unless END_TO_END[name] }
          kept
        end

        # @param fields [Array<Array(String, String)>] after the content of an upstream's response
        # @return [Hash{String=>String, Array<String>}] those that are for the client
        def trailers(fields) = response(fields.flatten).select { |name, _| trailer?(name) }

        # @param value [String] of an upstream's Trailer
        # @return [String, nil] the names in it of those that are for the client
        def announced(value)
          names = value.downcase.split(",").map(&:strip).select { |name| trailer?(name) }
          names.join(", ") unless names.empty?
        end

        private

        def trailer?(name)
          !(name.empty? || DROPPED[name] || name.start_with?(RACK) || ONLY_HEADS[name] || OF_HEADS.match?(name))
        end
      end
    end
  end
end
