# frozen_string_literal: true

require_relative "../runtime/http_fields"
require_relative "conditional"
require_relative "credentials"
require_relative "freshness"
require_relative "key"
require_relative "statuses"
require_relative "vary"

module NeverBlock
  class Cache
    # Decides whether a shared cache may store a response and give it to other clients: RFC 9111 §3.
    #
    #   env = {"REQUEST_METHOD" => "GET", "PATH_INFO" => "/"}
    #   ResponsePolicy.call(status: 200, headers: {"cache-control" => "max-age=60"}, request_env: env)    # => nil: yes
    #   ResponsePolicy.call(status: 200, headers: {"cache-control" => "private"}, request_env: env)       # => :private
    #
    # The reasons against it, in the order in which they are looked for:
    #
    #   :method               the request was not a GET
    #   :status               not one of {Statuses}, or `must-understand` and one that the cache does not understand
    #   :headers_too_large    more than `max_header_bytes`, or too many
    #   :malformed            a name that is not a token in lower case, a value that is not a printable String, or an
    #                         invalid Content-Length: another reader may see other headers
    #   :hijack, :sendfile    the body is sent by others: by the app itself, or by the server in front
    #   :transfer_encoding    the body is encoded for one connection
    #   :content_range        the body is a part
    #   :set_cookie           says something to one client
    #   :connection           lists a field that decides about sharing as hop-by-hop
    #   :request_no_store     the request forbids to store (§5.2.1.5)
    #   :no_store, :private   the response forbids it. `no-store` doesn't count beside `must-understand` (§5.2.2.3)
    #   :authorization        the request had an Authorization, and the response has none of `public`, `must-revalidate`
    #                         and `s-maxage` (§3.5); or the response has an Authentication-Info, which is for one client
    #   :cookie, :client_certificate, :credential_header
    #                         the request had such credentials, and the response is not `public`
    #   :vary_any             depends on something that can't be compared, or on too much
    #   :vary_credentials     depends on a header that is a credential
    #   :no_freshness         does not say how long it is fresh; or it is not fresh at all, can't be validated, and has
    #                         no window in which a stale response may be used
    #   :unusual_url          the request wrote the host or path in another way than the key does: {Key.plain?}
    # @api private
    class ResponsePolicy
      HEADER_BYTES = 16 << 10
      MOST_HEADERS = 128
      # Fields of responses that are not shared, and the reason.
      STOPS = {
        **HttpFields::CONTENT_ELSEWHERE.to_h { |name| [name, :sendfile] },
        "transfer-encoding" => :transfer_encoding, "content-range" => :content_range,
        "set-cookie" => :set_cookie, "set-cookie2" => :set_cookie
      }.freeze
      # Fields that Connection must not list (RFC 9110 §7.6.1).
      DECISIVE = HttpFields::DECISIVE
      RACK = "rack."
      PART = %r{\A\s*multipart/byteranges}i
      LENGTH = /\A[0-9]{1,18}\z/
      private_constant :MOST_HEADERS, :STOPS, :DECISIVE, :RACK, :PART, :LENGTH

      class << self
        # @param status [Integer]
        # @param headers [Hash{String=>String, Array<String>}]
        # @param request_env [Hash] of the request that reached the app
        # @param targeted [Array<String>] names of targeted fields: {CacheControl.of_response}
        # @param credential_entries [Array<String>] names in env of further headers that are credentials
        # @param responded_at [Numeric, nil] seconds since 1970; nil: now
        # @param max_header_bytes [Integer] bytes of all names and values together
        # @param default_ttl [Numeric, nil] as of {Freshness}
        # @param heuristic_ttl [Numeric, nil] as of {Freshness}
        # @param statuses [Array<Integer>] as of {Freshness}
        # @return [Symbol, nil] why the response must not be shared; nil: it may
        def call(status:, headers:, request_env:, targeted: [], credential_entries: [], responded_at: nil,
          max_header_bytes: HEADER_BYTES, default_ttl: nil, heuristic_ttl: nil, statuses: [])
          responded_at ||= Clock.wall
          return :method unless request_env["REQUEST_METHOD"] == "GET"
          return :status unless Statuses.storable?(status, statuses)
          reason = form(headers, max_header_bytes) || stop(headers)
          return reason if reason
          freshness = Freshness.new(status:, headers:, requested_at: responded_at, responded_at:, targeted:,
            default_ttl:, heuristic_ttl:, statuses:)
          return :status if freshness.cache_control.must_understand? && !Statuses::UNDERSTOOD.include?(status)
          new(headers, request_env, freshness, credential_entries, responded_at).reason
        end

        # Decides again when the app has validated a stored response.
        # @param status [Integer] of the stored response
        # @param headers [Hash] of the stored response, updated: {Conditional.merge}
        # @param not_modified [Hash] headers of the 304
        # @param options [Hash] as of {.call}
        # @return [Symbol, nil]
        def of_validation(status:, headers:, not_modified:, request_env:, **options)
          form(not_modified, options.fetch(:max_header_bytes, HEADER_BYTES)) ||
            stop(not_modified) || call(status:, headers:, request_env:, **options)
        end

        private

        # Whether each reader sees the same headers.
        def form(headers, max_bytes)
          bytes = 0
          return :headers_too_large if headers.size > MOST_HEADERS
          headers.each do |name, value|
            return :malformed unless String === name
            return :hijack if name.start_with?(RACK)
            return :malformed unless Field::NAME.match?(Field.plain(name))
            Array(value).each do |line|
              return :malformed unless String === line
              bytes += name.bytesize + line.bytesize + 4
              return :headers_too_large if bytes > max_bytes
              return :malformed if Field::CONTROL.match?(Field.plain(line))
            end
          end
          nil
        end

        def stop(headers)
          STOPS.each { |name, reason| return reason unless Field.text(headers[name]).nil? }
          return :content_range if PART.match?(Field.text(headers["content-type"]).to_s)
          length = Field.text(headers["content-length"])
          return :malformed unless length.nil? || LENGTH.match?(length)
          :connection unless (Field.members(headers["connection"]) & DECISIVE).empty?
        end
      end

      # @param headers [Hash] valid ones
      # @param request_env [Hash]
      # @param freshness [Freshness]
      # @param credential_entries [Array<String>]
      # @param now [Numeric]
      def initialize(headers, request_env, freshness, credential_entries, now)
        @headers = headers
        @env = request_env
        @freshness = freshness
        @control = freshness.cache_control
        @credential_entries = credential_entries
        @now = now
      end

      # @return [Symbol, nil]
      def reason = forbidden || credentials || vary || age || (:unusual_url unless Key.plain?(@env))

      private

      def forbidden
        return :request_no_store if CacheControl.parse(@env["HTTP_CACHE_CONTROL"]).key?("no-store")
        return :no_store if @control.malformed? || (@control.key?("no-store") && !@control.must_understand?)
        :private if @control.key?("private")
      end

      def credentials
        return :authorization if @headers["authentication-info"]
        kinds = Credentials.of(@env, names: @credential_entries)
        return if kinds.empty? || public?
        kinds.find { |kind| kind != :authorization } || (:authorization unless authorization_allowed?)
      end

      # An argument is not allowed (§5.2.2.9): with one it is doubtful what was meant.
      def public? = @control["public"] == true

      def authorization_allowed? = @control["must-revalidate"] == true || @control.key?("s-maxage")

      def vary
        vary = Vary.new(@headers["vary"])
        return :vary_any if vary.any?
        :vary_credentials if vary.credentials? || vary.names.any? { |name| credential?(Credentials.entry(name)) }
      end

      def credential?(entry) = Credentials.name?(entry) || @credential_entries.include?(entry)

      def age
        return :no_freshness unless @freshness.explicit?
        return if @freshness.fresh?(@now) || Conditional.validator?(@headers)
        return if @freshness.stale_while_revalidate?(@now) || @freshness.stale_if_error?(@now)
        :no_freshness
      end
    end
  end
end
