# frozen_string_literal: true

require_relative "field"
require_relative "memo"

module NeverBlock
  class Cache
    # The scheme and authority of a request's URL.
    #
    #   env = {"rack.url_scheme" => "http", "HTTP_HOST" => "Example.org:80"}
    #   Origin.of(env)                                                            # => "http://example.org"
    #   Origin.of({**env, "HTTP_X_FORWARDED_PROTO" => "https"}, trusted: true)    # => "https://example.org:80"
    #   Origin.disputed?({**env, "HTTP_X_FORWARDED_PROTO" => "https"})            # => true
    #
    # The authority is the Host field's; the server's own name and port count only for a request without one. It must be
    # a host name of letters, digits, "-", "_" and single dots, or an IPv6 address in brackets, with a port or without
    # one. All else, such as user names, percent encodings and several values, has no origin.
    # @api private
    module Origin
      AUTHORITY = /\A([a-z0-9_-]+(?:\.[a-z0-9_-]+)*+\.?|\[[0-9a-f:.]+\])(?::([0-9]+))?\z/i
      IPV4 = /(?<![0-9.])(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})(?:\.(?:25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})){3}/
      HEXTETS = /\A[0-9a-f]{1,4}(?::[0-9a-f]{1,4})*+\z/
      DIGITS = /\A[1-9][0-9]{0,4}\z/
      LONGEST_HOST = 255 # bytes
      PORTS = {"http" => 80, "https" => 443}.freeze
      # Fields that tell the scheme, and those values of them that do.
      SCHEMES = {
        "HTTP_X_FORWARDED_PROTO" => {}.freeze, "HTTP_X_FORWARDED_SCHEME" => {}.freeze,
        "HTTP_X_FORWARDED_SSL" => {"on" => "https", "off" => "http"}.freeze
      }.freeze
      HOST = "HTTP_X_FORWARDED_HOST"
      PORT = "HTTP_X_FORWARDED_PORT"
      FORWARDED = "HTTP_FORWARDED"
      CLAIMS = [*SCHEMES.keys, HOST, PORT, FORWARDED].freeze
      PAIR = /\A[ \t]*(proto|host)="?([^"\\\s]*)"?[ \t]*\z/i # RFC 7239 §4
      # By scheme, of Host fields.
      BUILT = PORTS.transform_values { Memo.new }.freeze
      private_constant :BUILT, :AUTHORITY, :IPV4, :HEXTETS, :DIGITS, :LONGEST_HOST, :PORTS, :SCHEMES, :HOST, :PORT,
        :FORWARDED, :PAIR

      class << self
        # @param env [Hash]
        # @param trusted [Boolean] whether the proxy's words on scheme, host and port count (Forwarded, X-Forwarded-*)
        # @param scheme [String, nil] the one that all requests have
        # @return [String, nil] as in "https://example.org:8443"; nil: doubtful
        def of(env, trusted: false, scheme: nil)
          return of_host(env, scheme || env["rack.url_scheme"]) unless trusted
          scheme ||= claimed(env, :scheme)
          host = claimed(env, :host)
          port = claimed(env, :port) if host != :doubtful
          build(scheme || env["rack.url_scheme"], host || host_of(env), port)
        end

        # @param text [String, nil] as in "Example.org:80"
        # @param scheme [String]
        # @param port [String, nil] where the text has none
        # @return [String, nil] in lower case, without the scheme's own port and without a dot at the end of the host;
        #   nil: invalid
        def authority(text, scheme, port = nil)
          match = AUTHORITY.match(Field.plain(text.to_s)) or return
          host = match[1].downcase.delete_suffix(".")
          return if host.bytesize > LONGEST_HOST || (host.start_with?("[") && !ipv6?(host[1..-2]))
          port = match[2] || port
          return host if port.nil?
          return unless DIGITS.match?(port) && (number = port.to_i) <= 65_535
          (number == PORTS[scheme]) ? host : "#{host}:#{number}"
        end

        # Whether fields of proxies that are not trusted contradict the URL. The app may believe them.
        # @param env [Hash]
        # @param scheme [String, nil]
        # @return [Boolean]
        def disputed?(env, scheme: nil)
          return false if CLAIMS.none? { |name| env.key?(name) }
          of(env, scheme:) != of(env, trusted: true, scheme: agreed(env, scheme))
        end

        # @param env [Hash]
        # @return [Boolean] whether the Host field is written as the key has it
        def plain?(env)
          host = env["HTTP_HOST"]
          host.nil? || host == authority(host, env["rack.url_scheme"])
        end

        private

        def of_host(env, scheme)
          host = host_of(env)
          return unless String === host && (memo = BUILT[scheme])
          memo.fetch(host) { build(scheme, host, nil)&.freeze }
        end

        def build(scheme, host, port)
          return unless PORTS.key?(scheme) && String === host && port != :doubtful
          authority = authority(host, scheme, port)
          "#{scheme}://#{authority}" if authority
        end

        def host_of(env)
          host = env["HTTP_HOST"]
          return host if host
          name = env["SERVER_NAME"].to_s
          name = "[#{name}]" if name.include?(":") && !name.start_with?("[")
          "#{name}:#{env["SERVER_PORT"]}"
        end

        # A scheme that is the same for all requests is nevertheless contradicted by another one.
        def agreed(env, scheme) = (scheme unless claimed(env, :scheme))

        # @return [String, :doubtful, nil] nil: no field has it; :doubtful: several values
        def claimed(env, part)
          values = case part
          when :scheme then schemes(env)
          when :host then forwarded(env, "host").concat(list(env[HOST]))
          else list(env[PORT])
          end
          values.uniq!
          (values.size > 1) ? :doubtful : values.first
        end

        def schemes(env)
          found = forwarded(env, "proto").map(&:downcase)
          SCHEMES.each do |name, words|
            found.concat(list(env[name]).map { |value| words[value = value.downcase] || value }) if env.key?(name)
          end
          found
        end

        def forwarded(env, name)
          return [] unless env.key?(FORWARDED)
          list(env[FORWARDED]).flat_map { |element| element.split(";") }.filter_map do |pair|
            match = PAIR.match(pair)
            match[2] if match && match[1].casecmp?(name)
          end
        end

        def list(value) = Field.text(value).to_s.split(",").map { |value| Field.trim(value) }

        # RFC 4291 §2.2.
        def ipv6?(text)
          text = text.sub(/#{IPV4}\z/o, "0:0") if text.include?(".")
          parts = text.split("::", -1)
          return false if parts.size > 2 || parts.any? { |part| !part.empty? && !HEXTETS.match?(part) }
          groups = parts.sum { |part| part.empty? ? 0 : part.count(":") + 1 }
          (parts.size == 2) ? groups < 8 : groups == 8
        end
      end
    end
  end
end
