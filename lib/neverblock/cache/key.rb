# frozen_string_literal: true

require_relative "origin"
require_relative "key_path"
require_relative "key_query"

module NeverBlock
  class Cache
    # The primary key of a response, "scheme://authority/path?query": RFC 9111 §2.
    #
    #   Key.of({"rack.url_scheme" => "https", "HTTP_HOST" => "Example.org:443", "SCRIPT_NAME" => "",
    #     "PATH_INFO" => "/%7euser", "QUERY_STRING" => "page=2"})    # => "https://example.org/~user?page=2"
    #
    # The method isn't part of it: only GET is stored, and GET and HEAD look it up. What the parts consist of, and which
    # requests have no key and are not cached: {Origin}, {KeyPath}, {KeyQuery}.
    # @api private
    module Key
      # Bytes of the longest key.
      LONGEST = 8 << 10
      PARTS = %r{\A(https?)://([^/?#]+)(/[^?#]*)(?:\?([^#]*))?\z}
      # RFC 3986, appendix B.
      REFERENCE = %r{\A(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#.*)?\z}m
      private_constant :LONGEST, :PARTS, :REFERENCE

      class << self
        # @param env [Hash]
        # @param ignore_params [Array<String>] decoded names of parameters on which no response depends, and which no
        #   response repeats
        # @param sort_query [Boolean] whether the order of parameters doesn't matter
        # @param trusted [Boolean] whether proxies tell scheme, host and port: {Origin.of}
        # @param scheme [String, nil] "http" or "https" for all requests
        # @return [String, nil] frozen; nil: doubtful, so that the request is not cached
        def of(env, ignore_params: [], sort_query: false, trusted: false, scheme: nil)
          origin = Origin.of(env, trusted:, scheme:) or return
          build(origin, KeyPath.raw(env), env["QUERY_STRING"], ignore_params, sort_query)
        end

        # @param env [Hash]
        # @param trusted [Boolean]
        # @param scheme [String, nil]
        # @return [String, nil] as in "example.org:8443"; nil: doubtful
        def authority(env, trusted: false, scheme: nil) = Origin.of(env, trusted:, scheme:)&.split("//")&.last

        # Whether host and path are written as in the key. The response to a request that writes them in another way may
        # repeat it, or the app may take it for another URL. So a stored response is used for such a request, but its
        # own response is not stored: {ResponsePolicy}.
        # @param env [Hash]
        # @return [Boolean]
        def plain?(env)
          path = KeyPath.raw(env)
          Origin.plain?(env) && KeyPath.normalize(path) == path
        end

        # @param base [String] a key
        # @param location [String, nil] the value of a Location or Content-Location field
        # @param ignore_params [Array<String>]
        # @param sort_query [Boolean]
        # @return [String, nil] the key of that URL; nil: it is invalid, or of another origin, so that it must not be
        #   invalidated (RFC 9111 §4.4)
        def of_location(base, location, ignore_params: [], sort_query: false)
          return unless String === location && location.bytesize <= LONGEST
          _, base_scheme, base_authority, base_path, base_query = *PARTS.match(base)
          _, scheme, authority, path, query = *REFERENCE.match(Field.plain(location))
          return if path.nil? || base_path.nil?
          return unless same_origin?(scheme, authority, base_scheme, base_authority)
          query ||= base_query if path.empty? && authority.nil?
          path = resolve(path, authority ? "/" : base_path)
          build("#{base_scheme}://#{base_authority}", path, query, ignore_params, sort_query)
        end

        private

        def build(origin, path, query, ignore_params, sort_query)
          path = KeyPath.normalize(path) or return
          query = KeyQuery.of(query, ignore: ignore_params, sort: sort_query) or return
          key = query.empty? ? "#{origin}#{path}" : "#{origin}#{path}?#{query}"
          key.freeze if key.bytesize <= LONGEST
        end

        def same_origin?(scheme, authority, base_scheme, base_authority)
          return false if scheme && (authority.nil? || !scheme.casecmp?(base_scheme))
          authority.nil? || Origin.authority(authority, base_scheme) == base_authority
        end

        # RFC 3986 §5.2.
        def resolve(path, base)
          return base if path.empty?
          path = base[0..base.rindex("/")] + path unless path.start_with?("/")
          segments = path.split("/", -1).drop(1)
          kept = []
          segments.each do |segment|
            case segment
            when "." then next
            when ".." then kept.pop
            else kept << segment
            end
          end
          kept << "" if segments.last == "." || segments.last == ".."
          "/#{kept.join("/")}"
        end
      end
    end
  end
end
