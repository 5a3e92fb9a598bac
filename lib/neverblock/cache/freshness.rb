# frozen_string_literal: true

require_relative "cache_control"
require_relative "http_date"
require_relative "statuses"

module NeverBlock
  class Cache
    # How long a stored response may be used: RFC 9111 §4.2, RFC 5861.
    #
    #   freshness = Freshness.new(status: 200, headers: {"cache-control" => "max-age=60, stale-while-revalidate=30"},
    #     requested_at: 1000.0, responded_at: 1000.5)
    #   freshness.fresh?(1030)                     # => true
    #   freshness.ttl(1070)                        # => -10.0
    #   freshness.stale_while_revalidate?(1070)    # => true
    #
    # There is no heuristic freshness, unless the configuration gives a lifetime: `heuristic_ttl`, `default_ttl`. All
    # times are seconds since 1970, and all other numbers are seconds.
    # @api private
    class Freshness
      # Directives that forbid stale responses (RFC 9111 §4.2.4, §5.2.2.10), and `no-store`.
      FORBID_STALE = %w[must-revalidate proxy-revalidate s-maxage no-cache no-store].freeze
      # Seconds by which the clocks of hosts with one store may differ.
      SKEW = 5
      # Statuses that may have the default lifetime. A redirect that is not permanent may be one client's.
      USUAL = [200, 203, 204, 300, 301, 308].freeze
      # Contents that go on, one for each client.
      ENDLESS = %r{\A\s*(?:text/event-stream|multipart/)}i
      # The part of the time since the last change that is usual (RFC 9111 §4.2.2).
      HEURISTIC_SHARE = 0.1
      private_constant :FORBID_STALE, :SKEW, :USUAL, :ENDLESS, :HEURISTIC_SHARE

      # @return [CacheControl] the directives that count for this cache
      attr_reader :cache_control
      # @return [Numeric] s-maxage, max-age, Expires minus Date, or the default; 0 if there is none, if it is invalid or
      #   contradictory, or if the status is not one of {Statuses}
      attr_reader :lifetime

      # @param status [Integer]
      # @param headers [Hash{String=>String, Array<String>}]
      # @param requested_at [Numeric] when the request was sent
      # @param responded_at [Numeric] when the response's headers came
      # @param targeted [Array<String>] names of targeted fields: {CacheControl.of_response}
      # @param default_ttl [Numeric, nil] seconds for a response that does not say how long it is fresh. They begin when
      #   it has come: an app that takes longer than that would never have a stored response
      # @param heuristic_ttl [Numeric, nil] the most seconds of a lifetime that is guessed from Last-Modified
      # @param statuses [Array<Integer>] further ones that are stored
      def initialize(status:, headers:, requested_at:, responded_at:, targeted: [], default_ttl: nil,
        heuristic_ttl: nil, statuses: [])
        @cache_control = CacheControl.of_response(headers, targeted:)
        @responded_at = responded_at.to_f
        # An invalid Date, or several, count as none (RFC 9110 §6.6.1).
        date = HttpDate.parse(headers["date"], now: @responded_at) || @responded_at
        lifetime = explicit_lifetime(headers, date)
        lifetime ||= heuristic(status, headers, date, heuristic_ttl) if heuristic_ttl
        # A clock that was set back gives no negative delay.
        delay = [@responded_at - requested_at.to_f, 0.0].max
        lifetime ||= (@default = default_ttl + delay) if default_ttl && usual?(status, headers)
        @explicit = !lifetime.nil?
        @lifetime = (lifetime && Statuses.storable?(status, statuses)) ? lifetime : 0
        @initial_age = initial_age(headers["age"], date, delay)
        @stale_allowed = FORBID_STALE.none? { |name| @cache_control.key?(name) }
      end

      # @return [Boolean] whether the response itself, or the configuration, says how long it is fresh. `no-cache` says
      #   so too
      def explicit? = @explicit || must_validate?

      # @return [Boolean] whether the lifetime is the configuration's `default_ttl`
      def default? = !@default.nil?

      # A response from the future was stored before the clock was set back, and its age is unknown.
      # @param now [Numeric]
      # @return [Float] never negative: RFC 9111 §4.2.3
      def age(now)
        resident = now - @responded_at
        return CacheControl::MOST_SECONDS.to_f if resident < -SKEW
        @initial_age + [resident, 0.0].max
      end

      # @param now [Numeric]
      # @return [Float] negative: it is stale for so long
      def ttl(now) = @lifetime - age(now)

      # @param now [Numeric]
      # @return [Boolean] whether it may be used without the app
      def fresh?(now) = !must_validate? && ttl(now) > 0

      # @return [Boolean] whether each use must be validated (`no-cache`)
      def must_validate? = @cache_control.key?("no-cache")

      # @return [Boolean] whether no directive forbids a stale response. It takes a permission nevertheless: one of the
      #   windows below, or the request's `max-stale`
      def stale_allowed? = @stale_allowed

      # @param now [Numeric]
      # @return [Boolean] whether the response is stale, and may be used now while the app is asked for a new one: until
      #   the window after its expiry ends (RFC 5861 §3)
      def stale_while_revalidate?(now) = ttl(now) <= 0 && within?("stale-while-revalidate", now)

      # @param now [Numeric]
      # @return [Boolean] whether the response may be used now instead of an error: from the beginning until the window
      #   after its expiry ends (RFC 5861 §4)
      def stale_if_error?(now) = within?("stale-if-error", now)

      private

      def within?(window, now)
        seconds = @cache_control.seconds(window) if @stale_allowed
        !seconds.nil? && ttl(now) > -seconds
      end

      # The first that is present counts, valid or not (RFC 9111 §4.2.1, §5.3).
      def explicit_lifetime(headers, date)
        return 0 if @cache_control.malformed?
        seconds = @cache_control.seconds("s-maxage") || @cache_control.seconds("max-age")
        return seconds if seconds
        expires = Field.text(headers["expires"])
        return if expires.nil? || @cache_control.targeted?
        time = HttpDate.parse(expires, now: @responded_at) or return 0
        (time - date).clamp(0, CacheControl::MOST_SECONDS)
      end

      # Whether nothing in the response speaks against the default lifetime. Pragma is what HTTP/1.0 has for it.
      def usual?(status, headers) = USUAL.include?(status) && ordinary?(headers)

      def ordinary?(headers)
        !ENDLESS.match?(Field.text(headers["content-type"]).to_s) &&
          !Field.members(headers["pragma"]).include?("no-cache")
      end

      # RFC 9111 §4.2.2: for statuses that allow it, and for what is `public`.
      def heuristic(status, headers, date, most)
        return unless Statuses::HEURISTIC.include?(status) || @cache_control["public"] == true
        modified = HttpDate.parse(headers["last-modified"]) if ordinary?(headers)
        return if modified.nil?
        ((date - modified) * HEURISTIC_SHARE).clamp(0, most)
      end

      # A Date in the future gives no negative age.
      def initial_age(age, date, delay) = [@responded_at - date, reported(age) + delay].max

      # Of a list the first number counts, and what is none is ignored (RFC 9111 §5.1).
      def reported(age)
        number = Field.text(age)&.slice(/\A[ \t]*+([0-9]++)[ \t]*+(?:,|\z)/, 1)
        number ? [number.to_i, CacheControl::MOST_SECONDS].min : 0
      end
    end
  end
end
