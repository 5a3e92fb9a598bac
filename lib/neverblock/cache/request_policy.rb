# frozen_string_literal: true

require_relative "cache_control"
require_relative "credentials"
require_relative "key"
require_relative "request_marks"
require_relative "request_options"

module NeverBlock
  class Cache
    # Decides whether a request may be answered by the cache, and reads what it asks of the cache: RFC 9111 §5.2.1.
    #
    #   request = RequestPolicy.call(env, RequestOptions.new)
    #   request.lookup?      # => true
    #   request.key          # => "https://example.org/"
    #   request.no_cache?    # => false: a stored response needs no validation
    #
    # A request bypasses the cache for one of these reasons:
    #
    #   :method              neither GET nor HEAD
    #   :body                has a body, or may have one
    #   :upgrade, :expect    concerns the client's connection
    #   :override            another method, path or host for the app than for the cache
    #   :connection          names fields as hop-by-hop, which a proxy would remove
    #   :no_store            Cache-Control: no-store, or invalid
    #   :authorization, :cookie, :client_certificate, :credential_header    with `credentials: :bypass`
    #   :forwarded           Forwarded or X-Forwarded-* contradict the URL, and are not trusted
    #   :key                 has no key
    # @api private
    class RequestPolicy
      METHODS = %w[GET HEAD].freeze
      # Connection options that are no fields of the message, and fields that are hop-by-hop anyway.
      OPTIONS = %w[close keep-alive te trailer proxy-connection].freeze
      private_constant :METHODS, :OPTIONS

      # @param env [Hash] Rack's
      # @param options [RequestOptions]
      # @return [RequestPolicy] the decision
      def self.call(env, options = RequestOptions::DEFAULT) = new(env, options)

      # @return [Symbol, nil] why the request bypasses the cache; nil: it does not
      attr_reader :reason

      # @param env [Hash]
      # @param options [RequestOptions]
      def initialize(env, options)
        @env = env
        @options = options
        @cache_control = CacheControl.parse(env["HTTP_CACHE_CONTROL"])
        @reason = find
      end

      # @return [:lookup, :bypass]
      def action = @reason ? :bypass : :lookup

      # @return [Boolean]
      def lookup? = @reason.nil?

      # @return [Boolean]
      def bypass? = !lookup?

      # @return [String, nil] the key of the request's URL, for a request of any method; nil: doubtful
      def key
        return @key if defined?(@key)
        @key = Key.of(@env, **@options.key)
      end

      # @return [Boolean] whether the URL is written as its key is. The response to another way of writing it is not
      #   shared, so a request that finds nothing stored has no use for the others' fetch, nor they for its own
      def plain? = Key.plain?(@env)

      # @return [Boolean] whether the client wants a validated response. A Pragma counts only without a Cache-Control
      #   (RFC 9111 §5.4)
      def no_cache?
        return @cache_control.key?("no-cache") || max_age == 0 if @env.key?("HTTP_CACHE_CONTROL")
        @env.key?("HTTP_PRAGMA") && Field.members(@env["HTTP_PRAGMA"]).include?("no-cache")
      end

      # @return [Integer, nil] seconds that a response may be old
      def max_age = @cache_control.seconds("max-age")

      # @return [Integer, nil] seconds that a response must stay fresh
      def min_fresh = @cache_control.seconds("min-fresh")

      # @return [Integer, Float, nil] seconds that a response may be stale; infinite: any time; nil: it must be fresh
      def max_stale
        return Float::INFINITY if @cache_control["max-stale"] == true
        @cache_control.seconds("max-stale")
      end

      # @return [Boolean] whether the app must not be asked
      def only_if_cached? = @cache_control.key?("only-if-cached")

      private

      def find
        return :method unless METHODS.include?(@env["REQUEST_METHOD"])
        return :body if body?
        marked = marked?
        RequestMarks::STOPS.each { |name, reason| return reason unless @env[name].nil? } if marked
        return :connection if unusual_connection?
        return :no_store if @cache_control.key?("no-store")
        return :key if key.nil?
        return :forwarded if marked && !@options.trusted && Origin.disputed?(@env, scheme: @options.scheme)
        credentials if marked && @options.credentials == :bypass
      end

      # Most requests have none of these, and need no look for each.
      def marked?
        marks = @options.marks
        @env.each_key { |name| return true if marks.key?(name) }
        false
      end

      # The input itself is not asked: reading it would take it from the app.
      def body?
        length = @env["CONTENT_LENGTH"]
        !(length.nil? || length == "" || length == "0")
      end

      def unusual_connection?
        connection = @env["HTTP_CONNECTION"]
        return false if connection.nil? || connection == "keep-alive" || connection == "close"
        !(Field.members(connection) - OPTIONS).empty?
      end

      def credentials = Credentials.of(@env, names: @options.credential_entries).first
    end
  end
end
