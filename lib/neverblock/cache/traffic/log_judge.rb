# frozen_string_literal: true

require_relative "../cache_control"
require_relative "../key_path"
require_relative "../key_query"
require_relative "../statuses"

module NeverBlock
  class Cache
    class Traffic
      # Adds requests of a log to a {Traffic}, with what the log tells of whether they can be cached.
      #
      #   judge = LogJudge.new(traffic, only: ["/shop"], ignore_params: ["utm_source"])
      #   judge.add(request)
      #
      # The first of these decides: what a cache in front has done (`Cache-Status`, nginx' `$upstream_cache_status`);
      # the status; a user, a cookie, or a parameter that is a token; the response's Cache-Control. Where the log has no
      # Cache-Control, the status is taken for it.
      # @api private
      class LogJudge
        # What nginx and RFC 9211 say of stored responses, and of those that are not to be stored.
        STORED = /\A(?:HIT|STALE|UPDATING|REVALIDATED)\z|; *(?:hit|stored)(?![a-z=-])/i
        NOT_STORED = /\ABYPASS\z|; *fwd=(?:bypass|method)/i
        TOKEN = /(?:\A|&)(?:[a-z_-]*(?:token|signature|secret|password|passwd|api_?key)|sig|auth|session(?:_?id)?)=/i
        TOKENS = /(?:\A|&)(?:x-amz-credential|x-goog-credential|jwt|sid|phpsessid)=/i
        private_constant :STORED, :NOT_STORED, :TOKEN, :TOKENS

        # @return [Integer] requests without a time
        attr_reader :untimed

        # @param traffic [Traffic]
        # @param only [Array<String>] beginnings of paths; empty: all
        # @param ignore_params [Array<String>] parameters on which no response depends
        def initialize(traffic, only:, ignore_params:)
          @traffic = traffic
          @only = only
          @ignore_params = ignore_params
          @untimed = 0
          @last = 0.0
        end

        # @param request [LogRequest]
        # @return [Boolean] whether it was counted
        def add(request)
          path, query = request.path.to_s.split("?", 2)
          return false unless @only.empty? || @only.any? { |prefix| path&.start_with?(prefix) }
          normal = KeyPath.normalize(path) if path
          query = KeyQuery.of(query, ignore: @ignore_params)
          cacheable, reason, lifetime = (normal && query) ? judge(request, query) : [false, :key]
          @traffic.add(method: request.method.to_s, url: url(request, normal || path.to_s, query.to_s),
            client: client(request), status: request.status, cacheable:, bytes: request.bytes, at: time(request),
            lifetime:, reason:)
          true
        end

        private

        def url(request, path, query)
          path = "#{request.host}#{path}" if request.told?(request.host)
          query.empty? ? path : "#{path}?#{query}"
        end

        def client(request)
          return unless request.told?(request.client)
          request.told?(request.agent) ? "#{request.client} #{request.agent}" : request.client
        end

        def time(request)
          @untimed += 1 unless request.at
          @last = request.at || @last
        end

        # @return [Array(Object, Symbol, Numeric)] for {Traffic#add}
        def judge(request, query)
          kept = request.cache_status
          return true if kept && STORED.match?(kept)
          return [false, :bypass] if kept && NOT_STORED.match?(kept)
          reason = refusal(request, query)
          return [false, reason] if reason
          control(request.cache_control) if request.cache_control
        end

        def refusal(request, query)
          return if request.status.nil?
          return :status unless request.status == 304 || Statuses.storable?(request.status)
          return :authorization if request.told?(request.user)
          return :cookie if request.told?(request.cookie)
          return :set_cookie if request.told?(request.set_cookie)
          :token if TOKEN.match?(query) || TOKENS.match?(query)
        end

        def control(text)
          control = CacheControl.parse((text == "-") ? nil : text)
          return [false, :no_store] if control.key?("no-store")
          return [false, control.key?("private") ? :private : :no_cache] if control.key?("no-cache")
          seconds = control.seconds("max-age")
          return [seconds.to_i > 0 && :private, :private, seconds] if control.key?("private")
          seconds = control.seconds("s-maxage") || seconds
          (seconds.to_i > 0) ? [true, nil, seconds] : [false, :no_freshness]
        end
      end
    end
  end
end
