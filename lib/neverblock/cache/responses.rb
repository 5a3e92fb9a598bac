# frozen_string_literal: true

module NeverBlock
  class Cache
    # The Rack response to one request, from an entry: whole, a 304, a part of it, or without a body for HEAD.
    #
    #   Responses.of(entry, env, age: 12, status: CacheStatus.new(…))                    # => [200, headers, body]
    #   Responses.of(entry, env, age: 0, status:, body: Following.new(fill, reader))     # one that is still coming
    # @api private
    module Responses
      # The body of a response that is being fetched.
      class Following
        # @param fill [Fill]
        # @param reader [Fill::Reader]
        def initialize(fill, reader)
          @fill = fill
          @reader = reader
        end

        # @yieldparam chunk [String]
        # @return [void]
        # @raise [Fill::Truncated]
        def each(&) = @fill.each(@reader, &)

        # @return [void]
        def close = @fill.leave(@reader)
      end

      NOTHING = [].freeze
      # Statuses whose responses have no body, and no Content-Length (RFC 9110 §8.6).
      BODILESS = [204, 304].freeze
      private_constant :NOTHING, :BODILESS

      class << self
        # @param entry [Entry]
        # @param env [Hash] the request's
        # @param age [Integer] seconds
        # @param status [CacheStatus, nil]
        # @param body [Following, nil] nil: the entry's own
        # @return [Array(Integer, Hash, #each)]
        def of(entry, env, age:, status:, body: nil)
          headers = entry.headers.dup
          headers["age"] = age.to_s
          status&.append(headers)
          return not_modified(headers, body) if Conditional.not_modified?(env, status: entry.status, headers:)
          return head(entry, headers, body) if env["REQUEST_METHOD"] == "HEAD"
          return [entry.status, headers, body] if body
          headers["content-length"] = entry.body_size.to_s unless BODILESS.include?(entry.status)
          range = ByteRanges.of(env, size: entry.body_size, headers:) if entry.status == 200 && env.key?("HTTP_RANGE")
          range ? part(entry, headers, range) : [entry.status, headers, entry]
        end

        private

        def not_modified(headers, body)
          body&.close
          [304, Conditional.headers_of_not_modified(headers), NOTHING]
        end

        def head(entry, headers, body)
          headers["content-length"] ||= entry.body_size.to_s unless body || BODILESS.include?(entry.status)
          body&.close
          [entry.status, headers, NOTHING]
        end

        # RFC 9110 §14.4, §15.5.17.
        def part(entry, headers, range)
          size = entry.body_size
          if range == :unsatisfiable
            headers = headers.slice("age", "cache-status", "date")
            return [416, {**headers, "content-range" => "bytes */#{size}", "content-length" => "0"}, NOTHING]
          end
          headers["content-range"] = "bytes #{range.begin}-#{range.end}/#{size}"
          headers["content-length"] = range.size.to_s
          [206, headers, entry.slice(range)]
        end
      end
    end
  end
end
