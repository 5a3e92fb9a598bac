# frozen_string_literal: true

require "ipaddr"

module NeverBlock
  class Proxy
    # Tells the upstream about the client: X-Forwarded-For, -Proto and -Host, or Forwarded (RFC 7239). What a client
    # says about others is dropped, unless its address is trusted: then the client's address is added to it.
    #
    #   forwarded = Forwarded.new(:x_forwarded, ["10.0.0.0/8"])
    #   forwarded.each(env, false) { |name, value| … }    # "x-forwarded-for", "192.0.2.7"
    #   forwarded.claim?("x-real-ip")    # => true: it is not passed on as other fields are
    # @api private
    class Forwarded
      KINDS = %i[x_forwarded forwarded both none].freeze
      # The same names that the server's trusted_proxies drops; and those of X-Forwarded-*.
      CLAIMS = %w[
        forwarded x-real-ip x-client-ip client-ip true-client-ip cf-connecting-ip x-request-start
      ].to_h { |name| [name, true] }.freeze
      PREFIX = "x-forwarded-"
      UNKNOWN = "unknown"
      # What a fetch of the cache has in place of a client's address.
      # @api private
      NO_ADDRESS = [nil, "", "0.0.0.0"].freeze
      # The address of such a client in X-Forwarded-For and in the PROXY protocol. Without one the upstream would take
      # the proxy's own address for the client's, and on one host that is localhost.
      # @api private
      NOBODY = "0.0.0.0"
      ADDRESS = /\A[\h:.]+\z/
      TOKEN = /\A[!#$%&'*+\-.^_`|~0-9A-Za-z]+\z/
      private_constant :CLAIMS, :PREFIX, :UNKNOWN, :ADDRESS, :TOKEN

      # @param kind [Symbol] one of KINDS
      # @param trusted [Array<IPAddr>]
      def initialize(kind, trusted)
        @standard = %i[forwarded both].include?(kind)
        @x_forwarded = %i[x_forwarded both].include?(kind)
        @trusted = trusted
      end

      # @param name [String] in lower case
      # @return [Boolean] whether the field says something about a client
      def claim?(name) = CLAIMS.key?(name) || name.start_with?(PREFIX)

      # @param env [Hash] Rack's
      # @return [Boolean] whether the client is trusted to speak about others
      def trusts?(env)
        return false if @trusted.empty?
        address = IPAddr.new(env["REMOTE_ADDR"].to_s)
        address = address.native if address.ipv4_mapped?
        @trusted.any? { |network| network.include?(address) }
      rescue IPAddr::Error
        false
      end

      # @param env [Hash] Rack's
      # @param trusted [Boolean] whether to add to what the client has sent
      # @yieldparam name [String] of a field for the upstream
      # @yieldparam value [String]
      # @return [void]
      def each(env, trusted, &field)
        address = env["REMOTE_ADDR"]
        address = nil if NO_ADDRESS.include?(address) || !ADDRESS.match?(address)
        x_forwarded(env, address, trusted, &field) if @x_forwarded
        yield "forwarded", after((env["HTTP_FORWARDED"] if trusted), element(env, address)) if @standard
      end

      # @param name [String] in lower case
      # @return [Boolean] whether {#each} makes this field: a trusted client's own is not passed on beside it
      def makes?(name)
        return @standard if name == "forwarded"
        @x_forwarded && %w[x-forwarded-for x-forwarded-proto x-forwarded-host].include?(name)
      end

      private

      def x_forwarded(env, address, trusted)
        yield "x-forwarded-for", after((env["HTTP_X_FORWARDED_FOR"] if trusted), address || NOBODY)
        yield "x-forwarded-proto", (env["HTTP_X_FORWARDED_PROTO"] if trusted) || env["rack.url_scheme"]
        host = (env["HTTP_X_FORWARDED_HOST"] if trusted) || env["HTTP_HOST"]
        yield "x-forwarded-host", host if host
      end

      def after(list, value) = list ? "#{list}, #{value}" : value

      # RFC 7239, section 4; an IPv6 address is in brackets and quotes (section 6).
      def element(env, address)
        node = address || UNKNOWN
        node = quoted(node.include?(":") ? "[#{node}]" : node)
        host = env["HTTP_HOST"]
        "for=#{node};proto=#{env["rack.url_scheme"]}#{";host=#{quoted(host)}" if host}"
      end

      def quoted(text) = TOKEN.match?(text) ? text : "\"#{text.gsub(/["\\]/) { |one| "\\#{one}" }}\""
    end
  end
end
