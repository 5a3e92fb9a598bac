# frozen_string_literal: true

module NeverBlock
  class Cache
    # Finds what tells a request's user.
    #
    #   Credentials.of({"HTTP_COOKIE" => "session=1"})                        # => [:cookie]
    #   Credentials.of({"HTTP_X_TENANT" => "a"}, names: ["HTTP_X_TENANT"])    # => [:credential_header]
    #
    # Beside Authorization, Cookie and client certificates it knows the fields by which proxies tell the user that they
    # have authenticated, and usual names of keys and tokens.
    # @api private
    module Credentials
      # Rack and Rails read more than one name.
      AUTHORIZATION = %w[
        HTTP_AUTHORIZATION HTTP_PROXY_AUTHORIZATION X-HTTP_AUTHORIZATION X_HTTP_AUTHORIZATION
        REDIRECT_X_HTTP_AUTHORIZATION HTTP_X_HTTP_AUTHORIZATION HTTP_X_AUTHORIZATION
      ].freeze
      COOKIE = %w[HTTP_COOKIE HTTP_COOKIE2].freeze
      CERTIFICATE = %w[
        SSL_CLIENT_CERT SSL_CLIENT_S_DN SSL_CLIENT_VERIFY HTTP_SSL_CLIENT_CERT HTTP_SSL_CLIENT_S_DN
        HTTP_SSL_CLIENT_VERIFY HTTP_X_SSL_CLIENT_CERT HTTP_X_SSL_CLIENT_S_DN HTTP_X_SSL_CLIENT_DN
        HTTP_X_SSL_CLIENT_VERIFY HTTP_X_SSL_CERT HTTP_X_CLIENT_CERT HTTP_X_CLIENT_DN HTTP_X_CLIENT_VERIFY
        HTTP_CLIENT_CERT HTTP_CLIENT_CERT_CHAIN HTTP_X_FORWARDED_CLIENT_CERT HTTP_X_FORWARDED_TLS_CLIENT_CERT
        HTTP_X_FORWARDED_TLS_CLIENT_CERT_INFO HTTP_X_ARR_CLIENTCERT HTTP_X_AMZN_MTLS_CLIENTCERT
        HTTP_X_AMZN_MTLS_CLIENTCERT_LEAF rack.peer_cert puma.peercert
      ].freeze
      HEADER = %w[
        REMOTE_USER REMOTE_IDENT HTTP_REMOTE_USER HTTP_X_REMOTE_USER HTTP_X_USER HTTP_X_WEBAUTH_USER
        HTTP_X_AUTHENTICATED_USER HTTP_X_FORWARDED_USER HTTP_X_FORWARDED_EMAIL HTTP_X_FORWARDED_PREFERRED_USERNAME
        HTTP_X_FORWARDED_ACCESS_TOKEN HTTP_X_AUTH_REQUEST_USER HTTP_X_AUTH_REQUEST_EMAIL
        HTTP_X_AUTH_REQUEST_ACCESS_TOKEN HTTP_X_AMZN_OIDC_DATA HTTP_X_AMZN_OIDC_IDENTITY HTTP_X_AMZN_OIDC_ACCESSTOKEN
        HTTP_X_GOOG_IAP_JWT_ASSERTION HTTP_X_GOOG_AUTHENTICATED_USER_EMAIL HTTP_CF_ACCESS_JWT_ASSERTION
        HTTP_X_MS_CLIENT_PRINCIPAL HTTP_TAILSCALE_USER_LOGIN HTTP_X_AUTH_TOKEN HTTP_X_ACCESS_TOKEN HTTP_ACCESS_TOKEN
        HTTP_X_SESSION_TOKEN HTTP_X_SESSION_ID HTTP_X_API_KEY HTTP_X_APIKEY HTTP_API_KEY HTTP_APIKEY HTTP_X_API_TOKEN
        HTTP_PRIVATE_TOKEN HTTP_JOB_TOKEN HTTP_X_CSRF_TOKEN HTTP_X_XSRF_TOKEN HTTP_DPOP HTTP_SIGNATURE
        HTTP_X_AMZ_SECURITY_TOKEN HTTP_SEC_TOKEN_BINDING
      ].freeze
      # Each with its kind.
      ALL = {authorization: AUTHORIZATION, cookie: COOKIE, client_certificate: CERTIFICATE, credential_header: HEADER}
        .flat_map { |kind, names| names.map { |name| [name, kind] } }.to_h.freeze
      KINDS = ALL.values.uniq.freeze
      NOTHING = [].freeze
      # Values by which servers and proxies say that there is none.
      NONE = ["", "NONE", "(null)", "-"].freeze
      private_constant :AUTHORIZATION, :COOKIE, :CERTIFICATE, :HEADER, :KINDS, :NOTHING, :NONE

      class << self
        # @param env [Hash] a request's
        # @param names [Array<String>] names in env of further headers
        # @return [Array<Symbol>] what the request has of :authorization, :cookie, :client_certificate and
        #   :credential_header, in this order
        def of(env, names: NOTHING)
          found = nil
          env.each do |name, value|
            kind = ALL[name] || (:credential_header if names.include?(name))
            (found ||= []) << kind if kind && given?(value, kind)
          end
          found ? KINDS & found : NOTHING
        end

        # @param name [String] of a header in env
        # @return [Boolean]
        def name?(name) = ALL.key?(name)

        # @param header [String] its name
        # @return [String] its name in env
        def entry(header) = "HTTP_#{header.upcase.tr("-", "_")}".freeze

        private

        # An empty Authorization or Cookie is one that the app may not take for none.
        def given?(value, kind)
          return false if value.nil?
          return true if kind == :authorization || kind == :cookie
          !NONE.include?(value)
        end
      end
    end
  end
end
