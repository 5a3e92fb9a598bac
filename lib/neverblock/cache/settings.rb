# frozen_string_literal: true

require_relative "request_options"
require_relative "credentials"
require_relative "fetch_env"
require_relative "freshness"
require_relative "revision"
require_relative "statuses"
require_relative "vary"

module NeverBlock
  class Cache
    # The options of a {Cache}, checked, with their defaults.
    #
    #   settings = Settings.new(collapse: true, wait: 30)
    #   settings.max_object    # => 67_108_864
    # @api private
    class Settings
      SECONDS = ValueType.seconds(zero: true)
      COUNT = ValueType.count(least: 1)
      SIZE = ValueType.bytes
      FLAG = ValueType.flag

      # Each with its type and default.
      OPTIONS = {
        collapse: [FLAG, true], cache_status: [FLAG, true], details: [FLAG, false], same_url: [FLAG, false],
        default_ttl: [ValueType.seconds.optional, nil], heuristic_ttl: [ValueType.seconds.optional, nil],
        uncollapsible_ttl: [SECONDS, 120], wait: [SECONDS, 30],
        max_waiting: [COUNT, 10_000], max_released: [COUNT, 100], max_unattended: [COUNT, 100],
        name: [ValueType.text("a name"), "cache"],
        memory: [SIZE, 1 << 20], spool: [SIZE, 63 << 20], window: [SIZE, 1 << 20], max_keys: [COUNT, 10_000]
      }.freeze
      # Options that are lists of names.
      LISTS = {
        ignore_headers: [].freeze, pass_headers: [].freeze, allow_env: [].freeze, allow_state: [].freeze,
        targeted: ["cdn-cache-control"].freeze
      }.freeze
      # Options of {RequestOptions}.
      REQUESTS = %i[credentials credential_headers ignore_params sort_query trusted scheme].freeze
      FURTHER = %i[statuses].freeze
      # Headers that requests with credentials have.
      CREDENTIALS = %w[cookie authorization].freeze
      # What a response without a Vary depends on, if its lifetime is `default_ttl`: its app declares nothing.
      NEGOTIATED = Vary.new("accept, accept-charset, accept-encoding, accept-language")
      # What an encoded response without a Vary depends on.
      ENCODED = Vary.new("accept-encoding")
      NOTHING = Vary.new(nil)
      private_constant :SECONDS, :COUNT, :SIZE, :FLAG, :OPTIONS, :LISTS, :REQUESTS, :FURTHER, :CREDENTIALS, :NEGOTIATED,
        :ENCODED, :NOTHING

      attr_reader(*OPTIONS.keys, *LISTS.keys, *FURTHER)

      # @return [RequestOptions]
      attr_reader :requests

      # @return [String, nil] of the app's release
      attr_reader :revision
      # @return [Hash{Symbol=>Object}] options of {ResponsePolicy}
      attr_reader :policy
      # @return [Proc] tells a store which variants may be wanted, by the start of their names: those of this revision
      attr_reader :wanted

      # @param revision [String, nil] of the app's release
      # @param options [Hash{Symbol=>Object}] see docs/cache.md
      # @raise [ConfigurationError]
      def initialize(revision: nil, **options)
        refuse_unknown(options)
        @revision = Revision.check(revision) { "revision:" }
        @pairs = Revision.pairs(@revision)
        mark = Revision.mark(@revision)
        @wanted = ->(variant) { variant.start_with?(mark) }
        OPTIONS.each { |name, (type, default)| set(name, type.setting(options.fetch(name, default)) { "#{name}:" }) }
        LISTS.each { |name, default| set(name, list(name, options.fetch(name, default))) }
        @requests = RequestOptions.new(**options.slice(*REQUESTS))
        @statuses = statuses_of(options.fetch(:statuses, []))
        @lifetimes = {targeted:, default_ttl:, heuristic_ttl:, statuses:}.freeze
        @policy = {credential_entries: requests.credential_entries, **@lifetimes}.freeze
        plain = default_ttl.nil? && heuristic_ttl.nil? && statuses.empty?
        @known_as = plain ? targeted : [default_ttl, heuristic_ttl, statuses, *targeted].freeze
        @undeclared = default_ttl && !same_url
        @varies_as = @undeclared ? [:vary, *@known_as].freeze : :vary
        check_passed
      end

      # @param pairs [Array<Array(String, String)>] headers of a request that belong to the key
      # @return [Array<Array(String, String)>] with the revision
      def with_revision(pairs) = @pairs.empty? ? pairs : [*pairs, *@pairs]

      # @return [Integer] bytes of the longest body that is stored
      def max_object = memory + spool

      # @return [Array<String>] headers of requests that do not reach the app
      def dropped_headers = ignoring? ? ignore_headers + CREDENTIALS : ignore_headers

      # @param entry [Entry]
      # @return [Freshness]
      def freshness(entry)
        entry.known(@known_as) do
          Freshness.new(status: entry.status, headers: entry.headers, requested_at: entry.requested_at,
            responded_at: entry.responded_at, **@lifetimes)
        end
      end

      # @param entry [Entry]
      # @return [Vary] the request headers on which the entry's response depends
      def vary(entry)
        entry.known(@varies_as) { vary_of(entry.status, entry.headers) { freshness(entry) } }
      end

      # @param status [Integer]
      # @param headers [Hash] a response's
      # @yieldreturn [Freshness] of the response; without a block it is computed
      # @return [Vary] as the response says, or what a response that says nothing may depend on
      def vary_of(status, headers)
        return Vary.new(headers["vary"]) if headers["vary"]
        return NEGOTIATED if @undeclared && (block_given? ? yield : freshness_of(status, headers)).default?
        headers["content-encoding"] ? ENCODED : NOTHING
      end

      # @param status [Integer]
      # @param headers [Hash]
      # @param env [Hash] of the request that reached the app
      # @return [Symbol, nil] why the response is for one request alone
      def refusal(status, headers, env)
        reason = ResponsePolicy.call(status:, headers:, request_env: env, **policy)
        # Others may have it after a validation of their own only (RFC 9111 §5.2.2.4).
        reason || (:no_cache if CacheControl.of_response(headers, targeted:).key?("no-cache"))
      end

      # @param headers [Hash] a response's
      # @return [Array<String>] the tags by which it can be purged; a store refuses an entry with too many, which could
      #   not be purged by each
      def tags(headers) = Field.members(headers["cache-tag"]).uniq

      private

      def refuse_unknown(options)
        known = OPTIONS.keys + LISTS.keys + REQUESTS + FURTHER
        unknown = options.keys.find { |name| !known.include?(name) } or return
        raise ConfigurationError, "NeverBlock::Cache has no option #{unknown.inspect}. " \
          "Its options are #{[:store, *known, :revision].join(", ")}"
      end

      def freshness_of(status, headers)
        now = Clock.wall
        Freshness.new(status:, headers:, requested_at: now, responded_at: now, **@lifetimes)
      end

      def set(name, value) = instance_variable_set(:"@#{name}", value)

      def statuses_of(value)
        return value.dup.freeze if Statuses.list?(value)
        raise ConfigurationError, "statuses: #{value.inspect} is not a list of statuses from 200 to 599, without " \
          "#{Statuses::NEVER.join(", ")}, as in [404, 410]"
      end

      # A fetch for many must have nothing that is one client's.
      def check_passed
        pass_headers.each do |name|
          refuse_passed(name, "is one client's, or the cache's own business") if own?(Credentials.entry(name))
          refuse_passed(name, "is also in ignore_headers:") if ignore_headers.any? { |other| other.casecmp?(name) }
        end
        return unless pass_headers.include?(FetchEnv::ALL)
        refuse_passed(FetchEnv::ALL, "contradicts same_url: true") if same_url
        refuse_passed(FetchEnv::ALL, "would share what users have of their own, with credentials: :ignore") if ignoring?
      end

      def own?(entry) = requests.marks.key?(entry) || FetchEnv::OWN_BUSINESS.include?(entry)

      def ignoring? = requests.credentials == :ignore

      def refuse_passed(name, why)
        raise ConfigurationError, "pass_headers: #{name.inspect} can't reach the app in a fetch for many: that #{why}"
      end

      def list(name, value)
        return value.dup.freeze if Array === value && value.all?(String)
        raise ConfigurationError, "#{name}: #{value.inspect} is not a list of Strings"
      end
    end
  end
end
