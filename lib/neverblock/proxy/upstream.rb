# frozen_string_literal: true

module NeverBlock
  class Proxy
    # One address that requests are sent to. It comes from the configuration, never from a request: that is what keeps
    # the proxy from being an open one.
    #
    #   Upstream.new("http://127.0.0.1:3000").port                            # => 3000
    #   Upstream.new("https://app.internal:8443", ca_file: "internal.pem")
    #   Upstream.new("unix:/run/app.sock").path                               # => "/run/app.sock"
    #   Upstream.new("http://app:3000", timeouts: {connect: 1, total: 30})
    class Upstream
      URL = %r{\A(https?)://(?:\[(\h*:[\h:.]+)\]|([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?))(?::(\d{1,5}))?/?\z}
      UNIX = %r{\Aunix:(?://)?(/[^\0]+)\z}
      PORTS = {"http" => 80, "https" => 443}.freeze
      NAME = ValueType.text("a host name or an IP address")
      VERSION = ValueType.one_of(*Preface::VERSIONS).optional
      private_constant :URL, :UNIX, :PORTS, :NAME, :VERSION
      # @api private
      # A host, and perhaps a port.
      AUTHORITY = /\A(?:\[\h*:[\h:.]+\]|[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)(?::\d{1,5})?\z/
      # @api private
      # A host that is no name: there is nothing to look up.
      ADDRESS = /\A\d+\.\d+\.\d+\.\d+\z|:/

      # @return [String] the address, in one form
      attr_reader :url
      # @return [String, nil] a name or an IP address, without brackets; nil for a unix socket
      attr_reader :host
      # @return [Integer, nil]
      attr_reader :port
      # @api private
      # @return [Addrinfo, nil] of a host that is no name
      attr_reader :address
      # @return [String, nil] of a unix socket
      attr_reader :path
      # @return [String] the Host field of requests that have none of their own
      attr_reader :authority
      # @return [Timeouts]
      attr_reader :timeouts
      # @api private
      # @return [TLS, nil]
      attr_reader :tls

      # @param url [String] http://HOST:PORT, https://HOST:PORT or unix:/PATH; without a path, query or user
      # @param timeouts [Timeouts, Hash{Symbol=>Numeric,nil}] what differs from the defaults of {Timeouts}
      # @param ca_file [String, nil] of https: certificates to trust, as PEM; nil: those of the system
      # @param server_name [String, nil] of https: the name in the certificate, if it is not the host
      # @param proxy_protocol [1, 2, nil] the version of the PROXY protocol that tells the upstream the client's
      #   address. Each request has a connection of its own then
      # @raise [ConfigurationError]
      def initialize(url, timeouts: {}, ca_file: nil, server_name: nil, proxy_protocol: nil)
        parse(url)
        @timeouts = Timeouts.of(timeouts)
        if @url.start_with?("https:")
          name = server_name.nil? ? @host : NAME.setting(server_name) { "server_name:" }
          @tls = TLS.new(name, ca_file:)
        elsif ca_file || server_name
          raise ConfigurationError, "ca_file: and server_name: are for https:// alone, and the upstream is #{@url}"
        end
        @proxy_protocol = VERSION.setting(proxy_protocol) { "proxy_protocol:" }
        @address = numeric.freeze
        freeze
      end

      # @return [Boolean] whether connections are encrypted
      def tls? = !@tls.nil?

      # @api private
      # @param client [String, nil] the client's address
      # @return [String, nil] bytes at the beginning of the client's connection
      def preface(client) = (Preface.call(@proxy_protocol, client) if @proxy_protocol)

      # @return [String] the address
      def to_s = @url

      # @return [String]
      def inspect = "#<#{self.class} #{@url}>"

      private

      # Made once: Ruby starts a thread for each, since it asks the resolver of numbers too.
      def numeric
        Addrinfo.tcp(@host, @port) if @host && ADDRESS.match?(@host)
      rescue SocketError
        nil # such as 999.0.0.1: the look-up says so
      end

      def parse(url)
        case String(url).b
        when UNIX
          @path = $1.dup.force_encoding(Encoding.default_external).freeze
          @authority = "localhost"
          @url = "unix:#{@path}".freeze
        when URL
          scheme, @host, @port = $1, ($2 || $3).downcase.force_encoding(Encoding::UTF_8).freeze, ($4 || PORTS[$1]).to_i
          invalid(url) unless @port.between?(1, 65_535)
          shown = ($2) ? "[#{@host}]" : @host
          @authority = ((@port == PORTS[scheme]) ? shown : "#{shown}:#{@port}").freeze
          @url = "#{scheme}://#{shown}:#{@port}".freeze
        else invalid(url)
        end
      end

      def invalid(url)
        raise ConfigurationError, "the upstream #{url.inspect} is not an address. Write http://HOST:PORT, " \
          "https://HOST:PORT or unix:/PATH, with an IPv6 address in brackets and without a path or a user"
      end
    end
  end
end
