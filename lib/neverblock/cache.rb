# frozen_string_literal: true

require_relative "runtime"

module NeverBlock
  # A shared HTTP cache as Rack middleware (RFC 9111). While a response is being fetched, identical requests wait for
  # it: the app is asked once.
  #
  #   use NeverBlock::Cache, store: "memory:256m"
  #
  # Only what the app declares to be for everybody is stored or shared: `Cache-Control` with a lifetime, without
  # `private`, `no-store` and cookies. Requests with credentials go straight to the app. The response's `Cache-Status`
  # says what was done. What the parts do:
  #
  #   request_policy.rb, response_policy.rb   what may be looked up, stored and shared
  #   key.rb, vary.rb, fetch_env.rb           what a response depends on, and what of a request reaches the app
  #   freshness.rb, conditional.rb            how long an entry may be used; validation
  #   fill.rb, fetch.rb, fills.rb, spool.rb   a response that is being fetched, and those that wait for it
  #   entry.rb, memory_store.rb, file_store.rb  what is stored, and where
  #   remote_store.rb, two_levels.rb, leases.rb  servers that several hosts share
  #   responses.rb                            the response to one request
  #   registry.rb, revision.rb                all caches of the process; the release that made a response
  #   outcomes.rb                             counts what became of requests
  #   traffic.rb                              whether a cache would help
  #
  # It works with any Rack server. In fibers of NeverBlock thousands of requests can wait for one response.
  class Cache
    require_relative "cache/registry"
    require_relative "cache/revision"
    require_relative "cache/request_policy"
    require_relative "cache/response_policy"
    require_relative "cache/byte_ranges"
    require_relative "cache/stored_headers"
    require_relative "cache/cache_status"
    require_relative "cache/settings"
    require_relative "cache/entry"
    require_relative "cache/stores"
    require_relative "cache/fetch_env"
    require_relative "cache/env_guard"
    require_relative "cache/hints"
    require_relative "cache/fill"
    require_relative "cache/fills"
    require_relative "cache/released"
    require_relative "cache/outcomes"
    require_relative "cache/background"
    require_relative "cache/outer_state"
    require_relative "cache/fetch"
    require_relative "cache/responses"
    require_relative "cache/lookup"
    require_relative "cache/explanation"

    autoload :Traffic, "#{__dir__}/cache/traffic"
    autoload :Store, "#{__dir__}/cache/store"

    SAFE = %w[GET HEAD OPTIONS TRACE].to_h { |method| [method, true] }.freeze
    URL = %r{\A(https?)://([^/?#]+)([^?#]*)(?:\?([^#]*))?}
    CACHES = Registry.new
    private_constant :SAFE, :URL, :CACHES

    class << self
      # @return [String, nil] the revision of caches without an option `revision:`; the Railtie sets it
      attr_reader :default_revision

      # For caches that are made from now on.
      # @param revision [String, nil] of the app's release
      # @raise [ConfigurationError]
      def default_revision=(revision)
        @default_revision = Revision.check(revision) { "Cache.default_revision" }
      end

      # @api private
      # Checks options without a cache that would be among those of the process.
      # @param options [Hash{Symbol=>Object}] of {#initialize}, without the store
      # @return [void]
      # @raise [ConfigurationError]
      def check(**options)
        Settings.new(**options)
        nil
      end

      # Adds an object that {purge_tag} and {purge_url} ask. Each cache has registered itself. It is held weakly.
      # @param object [#purge_tag] and perhaps #purge, for a URL
      # @return [void]
      # @raise [ArgumentError]
      def register(object) = CACHES.add(object)

      # Removes the responses with these tags from all caches of this process. Other processes see it if the caches'
      # store is one that they share.
      #
      #   NeverBlock::Cache.purge_tag("posts", "post-7")    # => 12
      #
      # @param tags [Array<String>]
      # @return [Integer] number of responses that were stored
      # @raise [ArgumentError] if one of them can't be a tag
      # @raise [StandardError] of an object that was registered, after all were asked
      def purge_tag(*tags)
        tags.each { |tag| tag_of(tag) }
        CACHES.sum(tags.uniq) { |object, tag| object.purge_tag(tag) }
      end

      # Removes the responses of these URLs from all caches of this process; see {purge_tag}.
      # @param urls [Array<String>] as in "https://example.org/posts/7"
      # @return [Integer] number of responses that were stored
      # @raise [ArgumentError] if one of them is no URL of http or https
      # @raise [StandardError] of an object that was registered, after all were asked
      def purge_url(*urls)
        urls.each { |url| parts_of(url) }
        CACHES.sum(urls.uniq) { |object, url| object.purge(url) if object.respond_to?(:purge) }
      end

      # @api private
      # @param tag [String]
      # @return [String] as it is stored: `Cache-Tag` is read without regard to case
      # @raise [ArgumentError]
      def tag_of(tag)
        members = (String === tag) ? Field.members(tag) : []
        return members.first if members.size == 1
        raise ArgumentError, "purge_tag: #{tag.inspect} is not a tag, a text without commas such as \"post-7\""
      end

      # @api private
      # @param url [String]
      # @return [Array<String, nil>] scheme, authority, path, query
      # @raise [ArgumentError]
      def parts_of(url)
        match = URL.match(url) if String === url && url.valid_encoding?
        return match.captures if match
        raise ArgumentError, "#{url.inspect} is not a URL as in \"https://example.org/page\""
      end
    end

    # @return [MemoryStore] or another store
    attr_reader :store
    # @return [String] in statistics
    attr_reader :name

    # @param app [#call]
    # @param store [String, Hash, Object] where responses are kept: "memory:256m", "file:/var/cache/app?bytes=2g",
    #   "redis://cache.internal", or an object with the interface of {MemoryStore}
    # @param options [Hash{Symbol=>Object}] see docs/cache.md
    # @raise [ConfigurationError]
    def initialize(app, store: "memory:64m", **options)
      @app = app
      @settings = Settings.new(revision: Cache.default_revision, **options)
      @store = Stores.open(store)
      @leases = @store.leases if @store.respond_to?(:leases)
      @fetch_env = FetchEnv.new(ignore: @settings.dropped_headers, allow: @settings.allow_env,
        pass: @settings.pass_headers, same_url: @settings.same_url)
      @hints = Hints.new(limit: @settings.max_keys)
      @fills = Fills.new(unattended: @settings.max_unattended)
      @rooms = Lookup::Rooms.new(app:, store: @store, settings: @settings, fetch_env: @fetch_env, hints: @hints,
        fills: @fills, released: Released.new(@settings.max_released), leases: @leases, outcomes: Outcomes.new)
      CACHES.join(self, @settings.name) { |name| @name = name }
    end

    # @param env [Hash] Rack's
    # @return [Array(Integer, Hash, #each)]
    def call(env)
      request = RequestPolicy.call(env, @settings.requests)
      return bypass(env, request, request.reason) unless request.lookup?
      extras = @fetch_env.extras(env)
      return bypass(env, request, "env #{@fetch_env.foreign(env)}") unless extras
      Lookup.new(@rooms, env, request, extras).call
    end

    # Removes the responses of a URL. One that is being fetched is not stored, and later requests do not wait for it.
    # @param url [String]
    # @return [Integer] number of responses that were stored
    # @raise [ArgumentError] if it is no URL of http or https
    def purge(url)
      key = key_of(url)
      raise ArgumentError, "purge: #{url.inspect} has no key: see docs/cache.md, What the key consists of" unless key
      forget(key)
    end

    # Removes the responses with a tag, which the app gives in `Cache-Tag`.
    # @param tag [String]
    # @return [Integer] number of responses that were stored
    # @raise [ArgumentError] if it can't be a tag
    def purge_tag(tag)
      @store.purge_tag(Cache.tag_of(tag)).tap { @fills.detach(nil) }
    end

    # Removes all responses.
    # @return [Integer] number of responses that were stored
    def clear = @store.clear.tap { @fills.detach(nil) }

    # What would be done with a request, and why.
    # @param env [Hash] Rack's
    # @return [Explanation] `to_s` is for people
    def explain(env) = Explanation.new(@rooms, env, RequestPolicy.call(env, @settings.requests))

    # @return [Hash{Symbol=>Object}] numbers of the store; fetches under way, requests that have joined them, URLs that
    #   are not shared; fetches that go on without a client (`max_unattended:`), URLs whose requests call the app
    #   themselves (`max_released:`); fetches that have waited for another host, if the store is a remote one;
    #   `requests`, by what became of them
    def stats
      fetches = {fetching: @fills.size, waiting: @fills.joined, uncollapsible: @hints.marked,
                 unattended: @fills.places.held, released: @rooms.released.size}
      stats = {**@store.stats, **fetches, requests: @rooms.outcomes.to_h}
      stats[:lease_waits] = @leases.waited if @leases
      stats
    end

    private

    def bypass(env, request, reason)
      @rooms.outcomes.count(env, :bypass)
      key = request.key unless SAFE[env["REQUEST_METHOD"]] # the app may change its env
      status, headers, body = @app.call(env)
      invalidate(key, status.to_i, headers) if key
      return [status, headers, body] unless @settings.cache_status
      headers = headers.dup
      CacheStatus.append(headers, fwd: :bypass, fwd_status: status.to_i, detail: (reason if @settings.details))
      [status, headers, body]
    end

    # RFC 9111 §4.4.
    def invalidate(key, status, headers)
      return unless status.between?(200, 399)
      locations = [headers["location"], headers["content-location"]].filter_map do |location|
        Key.of_location(key, location, **@settings.requests.key.slice(:ignore_params, :sort_query)) if location
      end
      [key, *locations].uniq.each { |one| forget(one) }
    end

    def key_of(url)
      scheme, host, path, query = Cache.parts_of(url)
      Key.of({"rack.url_scheme" => scheme, "HTTP_HOST" => host, "SCRIPT_NAME" => "", "PATH_INFO" => path.to_s,
              "QUERY_STRING" => query.to_s}, **@settings.requests.key.slice(:ignore_params, :sort_query))
    end

    def forget(key)
      @fills.detach(key)
      @store.purge(key).tap { @fills.detach(key) }
    end
  end
end
