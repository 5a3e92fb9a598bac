# frozen_string_literal: true

require_relative "../runtime/http_fields"
require_relative "cache_status"
require_relative "field"
require_relative "http_date"

module NeverBlock
  class Cache
    # The headers of a response that are stored: RFC 9111 §3.1.
    #
    #   StoredHeaders.of({"Connection" => "x-hop", "x-hop" => "1", "etag" => '"a"'})    # => {"etag" => "\"a\""}
    #
    # Not stored are hop-by-hop fields and those that Connection lists (RFC 9110 §7.6.1), fields of proxies, Set-Cookie,
    # instructions to the server in front of the app, entries of Rack itself, and this cache's part of Cache-Status.
    # @api private
    module StoredHeaders
      OTHERS = %w[set-cookie set-cookie2 status].freeze
      PREFIXES = %w[x-accel- x-reproxy- rack.].freeze
      EXCLUDED = [*HttpFields::HOP_BY_HOP, *HttpFields::CONTENT_ELSEWHERE, *OTHERS].to_h { |name| [name, true] }.freeze
      private_constant :OTHERS, :PREFIXES, :EXCLUDED

      class << self
        # @param headers [Hash{String=>String, Array<String>}]
        # @param received_at [Numeric, nil] seconds since 1970: the Date of a response without one (RFC 9110 §6.6.1);
        #   nil: it gets none
        # @return [Hash{String=>String, Array<String>}] frozen, with frozen names in lower case and frozen values
        def of(headers, received_at: nil)
          listed = connection_listed(headers)
          kept = {}
          headers.each do |name, value|
            name = name.to_s.downcase
            next if value.nil? || excluded?(name) || listed.include?(name)
            value = CacheStatus.without_own(value) if name == CacheStatus::FIELD
            kept[-name] = freeze_value(value) unless value.nil?
          end
          kept["date"] = HttpDate.format(received_at).freeze if received_at && !kept.key?("date")
          kept.freeze
        end

        # @param name [String] in lower case
        # @return [Boolean] whether fields of this name are never stored
        def excluded?(name) = EXCLUDED.key?(name) || PREFIXES.any? { |prefix| name.start_with?(prefix) }

        private

        def connection_listed(headers)
          lines = headers.select { |name, _| name.to_s.casecmp?("connection") }.values
          lines.flat_map { |line| Field.members(line) }
        end

        def freeze_value(value)
          case value
          when String then value.frozen? ? value : value.dup.freeze
          when Array then value.map { |line| freeze_value(line) }.freeze
          else value.to_s.freeze
          end
        end
      end
    end
  end
end
