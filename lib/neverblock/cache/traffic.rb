# frozen_string_literal: true

require_relative "../runtime/value_type"
require_relative "traffic/clients"
require_relative "traffic/pages"
require_relative "traffic/report"
require_relative "traffic/tally"
require_relative "traffic/text"

module NeverBlock
  class Cache
    # Measures whether a cache would help: the share of GETs that can be cached, of those that repeat, and of those that
    # repeat from the same client.
    #
    #   traffic = NeverBlock::Cache::Traffic.new(window: 3600)
    #   traffic.add(method: "GET", url: "/report", client: "192.0.2.7", status: 200, cacheable: true)
    #   puts traffic.report
    #
    # `neverblock cache report` feeds it from logs ({Logs}), {Recorder} from a running app. docs/cache.md has the terms.
    #
    # A GET repeats if a cache would have had its response: the URL was fetched, by any client, at most a lifetime
    # earlier, and no unsafe request has changed it since.
    #
    # * Memory is bounded. URLs whose lifetime is over make room first, which changes no count. If more URLs than
    #   `max_urls`, or more pairs of URL and client than `max_clients`, are within their lifetime, a sample of them goes
    #   on: half of them is dropped, by a hash, and the rest counts twice. The quarter asked most stays. So repeats
    #   are right within the sample, and their estimates are unbiased. Numbers of requests and of GETs are always exact.
    # * Clients are not stored: only hashes of URL and client together, by a key of this process.
    #
    # Fibers and threads may share an instance.
    class Traffic
      autoload :Logs, "#{__dir__}/traffic/logs"
      autoload :Recorder, "#{__dir__}/traffic/recorder"

      # Statuses of responses that caches may store without being told a lifetime (RFC 9110 §15.1), without errors, and
      # 304, which says so of an earlier response.
      ESTIMATED = [200, 203, 204, 300, 301, 304, 308].freeze
      SAFE = %w[GET HEAD OPTIONS TRACE].freeze
      SECONDS = ValueType.seconds
      COUNT = ValueType.count(least: 1)
      ANSWERS = [true, false, :private, nil].freeze
      private_constant :ESTIMATED, :SAFE, :SECONDS, :COUNT, :ANSWERS

      # @return [Numeric] seconds that a response is used, where none are given
      attr_reader :window

      # @param window [Numeric] seconds
      # @param max_urls [Integer] URLs that are kept; one takes some 300 bytes, with its URL
      # @param max_clients [Integer] pairs of a URL and a client that are kept; one takes some 60 bytes
      # @raise [ConfigurationError]
      def initialize(window: 3600, max_urls: 100_000, max_clients: 500_000)
        @window = check(SECONDS, :window, window)
        @pages = Pages.new(limit: check(COUNT, :max_urls, max_urls))
        @clients = Clients.new(limit: check(COUNT, :max_clients, max_clients))
        @tally = Tally.new
        @lock = Thread::Mutex.new
        @longest = @window # lifetime so far
        @lost = 0
        @error = nil
      end

      # Counts a request.
      # @param method [String]
      # @param url [String] its identity: requests with the same one want the same
      # @param client [String, nil] its identity; nil: unknown, so that nothing is counted as repeated by one client
      # @param status [Integer, nil] nil: unknown
      # @param cacheable [Boolean, :private, nil] whether a shared cache may have the response; :private: only the
      #   client's own cache may; nil: unknown, and estimated by the status
      # @param bytes [Integer, nil] of the body; nil: unknown
      # @param at [Numeric, nil] seconds since 1970; nil: now
      # @param lifetime [Numeric, nil] seconds that the response may be used; nil: `window`
      # @param variant [Object, nil] with a hash: what else the response depends on, as the values of Vary
      # @param reason [Symbol, nil] why a shared cache may not have it
      # @return [void]
      # @raise [ArgumentError] if `cacheable` is something else
      def add(method:, url:, client: nil, status: nil, cacheable: nil, bytes: nil, at: nil, lifetime: nil, variant: nil,
        reason: nil)
        unless ANSWERS.include?(cacheable)
          raise ArgumentError, "cacheable: #{cacheable.inspect} is not true, false, :private or nil"
        end
        at = (at || Clock.wall).to_f
        @lock.synchronize do
          @tally.request(at)
          next get(url, client, status, cacheable, bytes, at, lifetime, variant, reason) if method == "GET"
          change(url) if !SAFE.include?(method) && status && status.between?(200, 399)
        end
        nil
      end

      # Counts a request that can't be judged.
      # @api private
      # @param error [Exception]
      # @return [void]
      def lose(error)
        @lock.synchronize do
          @lost += 1
          @error ||= error.class.name
        end
      end

      # @param notes [Array<String>] sentences on what the figures do not tell, beside its own
      # @return [Report] of all requests so far
      def report(notes: [])
        @lock.synchronize do
          @tally.report(pages: @pages.best, window: @window, notes: [*notes, *self.notes], sampled: sampled?)
        end
      end

      private

      def check(type, name, value) = type.setting(value) { "#{name}:" }

      def get(url, client, status, cacheable, bytes, at, lifetime, variant, reason)
        estimated = cacheable.nil?
        cacheable = ESTIMATED.include?(status) if estimated
        reason ||= unspecified(status, estimated, cacheable) unless cacheable == true
        @tally.get(cacheable, estimated && cacheable, bytes, reason)
        return unless ESTIMATED.include?(status) || cacheable
        @longest = lifetime if lifetime && lifetime > @longest
        page = @pages.fetch(url, at, @window) or return
        page.gets += 1
        page.reason = reason if reason
        asked(page, at, reason) unless cacheable == true
        repeat(page, url, client, cacheable, bytes, at, lifetime || @window, variant) if cacheable
      end

      def unspecified(status, estimated, cacheable)
        return :private if cacheable
        return :other unless estimated
        status ? :status : :unknown_status
      end

      # A request whose response is not for all: would it repeat if it were?
      def asked(page, at, reason)
        return unless page.asked?(at, @window)
        page.refused += 1
        @tally.refused(reason, page.weight) if reason
      end

      def repeat(page, url, client, cacheable, bytes, at, lifetime, variant)
        pair = @clients.id(url, client, variant) if client
        if cacheable == :private
          weight = pair && @clients.keep(pair, at, lifetime, @longest)
          count(page, :private, page.weight * weight, bytes, true) if weight
          return
        end
        since = page.since(variant, at)
        seen = @clients.see(pair, at, since, @longest) if pair
        return page.store(variant, at, lifetime) unless since
        count(page, :shared, page.weight, bytes, false)
        count(page, :same_client, page.weight * seen, bytes, true) if seen
      end

      def count(page, kind, weight, bytes, same)
        page.repeats += 1 unless kind == :same_client
        page.same_client += 1 if same
        @tally.repeat(kind, weight, bytes)
      end

      # RFC 9111 §4.4: an unsafe request makes what is stored invalid.
      def change(url) = @pages.find(url)&.forget

      def sampled? = @pages.sampled? || @clients.sampled?

      def notes
        notes = []
        if @tally.estimated > 0
          notes << "Of #{Text.count(@tally.estimated, "GET")} no header tells whether they can be cached: that is " \
            "estimated from their status."
        end
        notes << "#{Text.count(@lost, "request")} could not be judged (#{@error})." if @lost > 0
        return notes unless sampled?
        notes << "There were more URLs or clients than the limits: repeats (~) are estimates from a sample."
      end
    end
  end
end
