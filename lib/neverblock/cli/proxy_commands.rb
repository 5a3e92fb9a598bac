# frozen_string_literal: true

require_relative "../server/commands"
require_relative "proxy_question"

module NeverBlock
  class CLI
    # What `neverblock proxy explain` and `purge` do in the server.
    #
    #   ProxyCommands.new(proxy, cache).register
    # @api private
    class ProxyCommands
      # @param proxy [Proxy]
      # @param cache [Cache, nil]
      def initialize(proxy, cache)
        @proxy = proxy
        @cache = cache
      end

      # @return [void]
      def register
        Server::Commands.register("explain") { |text| explain(ProxyQuestion.read(text).env) }
        Server::Commands.register("purge") { |url| removed { cache.purge(url) } }
        Server::Commands.register("purge-tag") { |tag| removed { cache.purge_tag(tag) } }
      end

      private

      def cache
        @cache or raise ConfigurationError, "this proxy has no cache. Start it with --cache memory:256m"
      end

      # A store raises nothing: its errors are counted.
      def removed
        before = cache.stats[:errors]
        count = yield
        if cache.stats[:errors] > before
          raise IOError, "the store has failed. This process reads nothing from it until it has been emptied; " \
            "its log has the error. Purge again"
        end
        "#{count} #{(count == 1) ? "response" : "responses"} removed"
      end

      def explain(env)
        refusal = @proxy.refuse({**env, "rack.errors" => nil})
        return "refused with #{refusal.first}: #{refusal.last.join.chomp}" if refusal
        [by_cache(env), *upstreams].join("\n")
      end

      def by_cache(env)
        return "there is no cache: each request is sent to an upstream" unless @cache
        @cache.explain(env).text(app: "the upstream")
      end

      def upstreams
        @proxy.stats.map do |url, stats|
          "upstream #{url}: #{use(stats)}, #{stats[:in_flight]} in flight"
        end
      end

      def use(stats)
        return "down by its checks" if stats[:down]
        return asked?(stats) ? "in use" : "in use, not asked so far" unless stats[:out]
        return "left alone after failures, for #{stats[:out_seconds].ceil} s more" if stats[:out_seconds] > 0
        "left alone after failures: #{stats[:trying] ? "a" : "the next"} request tries it"
      end

      # Without checks and requests nothing is known of it.
      def asked?(stats) = stats[:requests].any? || stats[:in_flight].positive? || stats[:checks_passed].positive?
    end
  end
end
