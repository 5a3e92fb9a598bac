# frozen_string_literal: true

require_relative "proxy_commands"
require_relative "proxy_log"

module NeverBlock
  class CLI
    # The app of `neverblock proxy`: a reverse proxy, perhaps with a cache in front. {Serve} asks it as {Rackup}.
    #
    #   app = ProxyApp.new(configuration)
    #   app.check
    #   app.load    # => the app
    # @api private
    class ProxyApp
      STORE = "memory:64m"
      ROUTE = "via"
      private_constant :STORE, :ROUTE

      # @param configuration [Server::Configuration]
      def initialize(configuration)
        @configuration = configuration
        @log = ProxyLog.new(configuration)
      end

      # @return [nil] there is no directory to enter
      def home = nil

      # @return [Boolean] its heap is small
      def rails? = false

      # @return [void]
      # @raise [ConfigurationError] with file and line of the setting
      def check
        if @configuration[:upstream].empty?
          raise ConfigurationError, "no upstream given. For example: neverblock proxy --upstream http://127.0.0.1:3000"
        end
        @configuration.blame(:upstream) { |urls| urls.each { |url| Proxy::Upstream.new(url) } }
        @configuration.blame(:proxy_options) { proxy }
        return unless cached?
        @configuration.blame(:proxy_cache) { Cache::Stores.check(cache_options[:store]) }
        @configuration.blame(:proxy_cache_options) { Cache.check(**cache_options.except(:store)) }
      end

      # For the program that follows: opens its store, which {#check} does not.
      # @return [void]
      # @raise [ConfigurationError]
      def rehearse = (@configuration.blame(:proxy_cache) { store.close } if cached?)

      # @return [#call]
      # @raise [ConfigurationError]
      def load
        Patches.apply
        compile
        @log.open
        cache = Cache.new(proxy, **cache_options, store: @configuration.blame(:proxy_cache) { store }) if cached?
        ProxyCommands.new(proxy, cache).register
        cache ? ->(env) { proxy.refuse(env) || cache.call(env) } : proxy
      end

      # @return [String]
      def to_s = "a proxy of #{proxy.upstreams.join(", ")}"

      private

      # The code of a proxy is small, and always the same: compiled, it takes two thirds of the processor's time.
      def compile
        RubyVM::YJIT.enable if defined?(RubyVM::YJIT.enable) && ENV["RUBY_YJIT_ENABLE"] != "0"
      end

      def proxy
        @proxy ||= Proxy.new(@configuration[:upstream], log: @log, **@configuration[:proxy_options])
      end

      def store = Cache::Stores.open(cache_options[:store])

      def cached?
        @configuration[:proxy_cache] || @configuration[:proxy_ttl] || @configuration[:proxy_collapse]
      end

      def cache_options
        collapse = @configuration[:proxy_collapse]
        {store: @configuration[:proxy_cache] || STORE, default_ttl: @configuration[:proxy_ttl],
         collapse: collapse != false, same_url: collapse == :same_url, **wait,
         **with_route(@configuration[:proxy_cache_options])}
      end

      # Requests wait for another one's fetch as long as that may wait for its upstream: all of them at a slow upstream
      # is what the cache is there against.
      def wait = {wait: proxy.upstreams.filter_map { |upstream| upstream.timeouts.first_byte }.max}.compact

      # Fetches have Via, by which proxies that ask each other in a ring find the loop. Without it each would wait for
      # its own response.
      def with_route(options)
        ignored, passed = options.values_at(:ignore_headers, :pass_headers).map { |names| Array(names) }
        return options if ignored.any? { |name| String === name && name.casecmp?(ROUTE) }
        {**options, pass_headers: passed | [ROUTE]}
      end
    end
  end
end
