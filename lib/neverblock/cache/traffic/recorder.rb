# frozen_string_literal: true

require_relative "../../runtime/monotonic_clock"
require_relative "../request_policy"
require_relative "../response_policy"
require_relative "../settings"

module NeverBlock
  class Cache
    class Traffic
      # Rack middleware that measures a running app's traffic, with the responses' own headers. It works without a
      # cache, and in front of one.
      #
      #   TRAFFIC = NeverBlock::Cache::Traffic.new(max_urls: 10_000, max_clients: 50_000)
      #   use NeverBlock::Cache::Traffic::Recorder, TRAFFIC, every: 3600 do |report|
      #     Rails.logger.info(report.to_s)
      #   end
      #
      # Each process has a report of its own. What can't be judged is counted in the report; no error reaches the
      # response.
      class Recorder
        include MonotonicClock

        # A loop that serves requests is held for a few milliseconds when there are too many.
        LIMITS = {max_urls: 10_000, max_clients: 50_000}.freeze
        SECONDS = ValueType.seconds
        # Values of header fields whose meaning is kept.
        MOST_FIELDS = 100
        # Fields besides Cache-Control that a lifetime depends on.
        DATES = %w[age date expires].freeze
        LENGTH = /\A[0-9]{1,15}\z/
        NOT_MODIFIED, FAILED = 304, 500
        private_constant :LIMITS, :SECONDS, :MOST_FIELDS, :DATES, :LENGTH, :NOT_MODIFIED, :FAILED

        # @return [Traffic]
        attr_reader :traffic

        # @param app [#call]
        # @param traffic [Traffic]
        # @param every [Numeric, nil] seconds between two reports to the block; nil: there are none
        # @param client [#call, nil] returns a client's identity for an env; nil: REMOTE_ADDR with the user agent
        # @param options [Hash] of the {Cache} for which it is measured
        # @yieldparam report [Report] with the request's fiber or thread
        # @raise [ConfigurationError]
        def initialize(app, traffic = Traffic.new(**LIMITS), every: nil, client: nil, **options, &told)
          @app = app
          @traffic = traffic
          @settings = Settings.new(**options)
          @client = client || method(:address)
          @every = every && SECONDS.setting(every) { "every:" }
          @told = told
          @dated = [*DATES, *@settings.targeted]
          @varies = {}
          @lifetimes = {}
          @next = now + @every if @every
        end

        # @param env [Hash] Rack's
        # @return [Array(Integer, Hash, #each)] the app's response
        def call(env)
          asked = env.dup # the app may change it
          status, headers, body = @app.call(env)
          record(asked, status.to_i, headers)
          [status, headers, body]
        rescue
          record(asked, FAILED, {}) if asked && status.nil?
          raise
        end

        private

        def record(env, status, headers)
          (env["REQUEST_METHOD"] == "GET") ? get(env, status, headers) : other(env, status)
          return unless @next && now >= @next
          @next = now + @every
          @told&.call(@traffic.report)
        rescue => error
          @traffic.lose(error)
        end

        def get(env, status, headers)
          # A 304 stands for the response that the client has.
          meant = (status == NOT_MODIFIED) ? 200 : status
          request = RequestPolicy.call(env, @settings.requests)
          reason = request.reason || @settings.refusal(meant, headers, env)
          lifetime = reason ? in_browser(meant, headers) : shared(meant, headers)
          cacheable = reason ? lifetime && :private : true
          @traffic.add(method: "GET", url: request.key || KeyPath.raw(env), client: @client.call(env), status:,
            cacheable: cacheable || false, bytes: length(headers), lifetime:,
            variant: (variant(headers, env) unless reason), reason:)
        end

        def other(env, status)
          url = Key.of(env, **@settings.requests.key) || KeyPath.raw(env)
          @traffic.add(method: env["REQUEST_METHOD"].to_s, url:, status:)
        end

        def shared(status, headers)
          return lifetime(status, headers) if @dated.any? { |name| headers.key?(name) }
          kept(@lifetimes, headers["cache-control"]) { lifetime(status, headers) }
        end

        def lifetime(status, headers) = [freshness(status, headers, @settings.targeted).ttl(wall_clock), 0].max

        # Most responses of an app have one of a few values.
        def kept(table, field)
          table.fetch(field) do
            table.clear if table.size >= MOST_FIELDS
            table[field] = yield
          end
        end

        # @return [Numeric, nil] seconds for which a browser may use it without asking; nil: it must not. s-maxage is
        #   not for browsers
        def in_browser(status, headers)
          control = CacheControl.parse(headers["cache-control"])
          return unless Statuses.storable?(status) && !control.key?("no-store") && !control.key?("no-cache")
          return if Field.text(headers["vary"]).to_s.include?("*")
          freshness = freshness(status, headers, [])
          seconds = control.seconds("max-age") || (freshness.lifetime unless control.key?("s-maxage"))
          left = seconds - freshness.age(wall_clock) if seconds
          left if left && left > 0
        end

        def freshness(status, headers, targeted)
          time = wall_clock
          Freshness.new(status:, headers:, requested_at: time, responded_at: time, targeted:)
        end

        # What the response depends on, beside its URL.
        def variant(headers, env)
          field = headers["vary"]
          kept(@varies, field) { Vary.new(field) }.values(env) if field
        end

        def length(headers)
          length = headers["content-length"]
          length.to_i if String === length && LENGTH.match?(length)
        end

        def address(env) = "#{env["REMOTE_ADDR"]} #{env["HTTP_USER_AGENT"]}"

        def wall_clock = Clock.wall
      end
    end
  end
end
