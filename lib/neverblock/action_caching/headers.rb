# frozen_string_literal: true

require_relative "../cache/credentials"

module NeverBlock
  module ActionCaching
    # Which entries of env an action may read, because the key has them or they say nothing of the client.
    #
    #   Headers.kind("HTTP_USER_AGENT")       # => :header
    #   Headers.kind("HTTP_AUTHORIZATION")    # => :credentials
    #   Headers.kind("HTTP_HOST")             # => nil: it is part of the key
    # @api private
    module Headers
      # Headers by which a page or a part of a page is asked for.
      PARTS = %w[
        HTTP_X_REQUESTED_WITH HTTP_TURBO_FRAME HTTP_X_PJAX HTTP_X_PJAX_CONTAINER HTTP_HX_REQUEST HTTP_HX_TARGET
        HTTP_HX_BOOSTED HTTP_X_INERTIA HTTP_X_INERTIA_VERSION HTTP_X_INERTIA_PARTIAL_DATA
        HTTP_X_INERTIA_PARTIAL_COMPONENT
      ].freeze
      # Parts of the key, conditions, and what concerns the connection.
      ALLOWED = %w[
        HTTP_HOST HTTP_X_FORWARDED_HOST HTTP_X_FORWARDED_PROTO HTTP_X_FORWARDED_PORT HTTP_X_FORWARDED_SSL
        HTTP_X_FORWARDED_SCHEME HTTP_FORWARDED HTTP_IF_NONE_MATCH
        HTTP_IF_MODIFIED_SINCE HTTP_IF_MATCH HTTP_IF_UNMODIFIED_SINCE HTTP_IF_RANGE HTTP_RANGE HTTP_CACHE_CONTROL
        HTTP_PRAGMA HTTP_VERSION HTTP_CONNECTION HTTP_X_REQUEST_ID HTTP_X_REQUEST_START HTTP_CONTENT_LENGTH
        HTTP_TRANSFER_ENCODING
      ].union(PARTS).to_h { |name| [name, true] }.freeze
      # What comes from the connection.
      OF_CLIENT = %w[REMOTE_ADDR REMOTE_HOST REMOTE_USER REMOTE_IDENT].to_h { |name| [name, true] }.freeze
      # A Vary may name these: the key has them.
      KEYED = %w[HTTP_ACCEPT HTTP_ACCEPT_ENCODING HTTP_HOST].union(PARTS).to_h { |name| [name, true] }.freeze
      # Filters read these for logs, or to choose what is part of the key itself: variant, locale, formats. Nearly each
      # client has others.
      USUAL = %w[
        HTTP_USER_AGENT HTTP_ACCEPT_LANGUAGE HTTP_REFERER HTTP_ORIGIN HTTP_VIA HTTP_DATE HTTP_FROM HTTP_X_FORWARDED_FOR
        HTTP_X_TURBO_REQUEST_ID HTTP_X_REAL_IP HTTP_CLIENT_IP HTTP_X_CLIENT_IP HTTP_TRUE_CLIENT_IP HTTP_FLY_CLIENT_IP
        HTTP_CF_CONNECTING_IP HTTP_CF_RAY HTTP_TRACEPARENT HTTP_TRACESTATE HTTP_BAGGAGE HTTP_SENTRY_TRACE HTTP_B3
        HTTP_X_AMZN_TRACE_ID HTTP_X_CLOUD_TRACE_CONTEXT HTTP_X_CORRELATION_ID HTTP_X_QUEUE_START
      ].union(OF_CLIENT.keys).to_h { |name| [name, true] }.freeze
      USUAL_STARTS = %w[HTTP_X_B3_ HTTP_X_DATADOG_ HTTP_SEC_].freeze
      private_constant :ALLOWED, :OF_CLIENT, :KEYED, :USUAL, :USUAL_STARTS

      class << self
        # @param entry [String] of env
        # @return [:credentials, :cookies, :header, nil]
        def kind(entry)
          return if ALLOWED.key?(entry)
          return (entry == "HTTP_COOKIE") ? :cookies : :credentials if Cache::Credentials.name?(entry)
          :header if entry.start_with?("HTTP_") || OF_CLIENT.key?(entry)
        end

        # @param entry [String] of env
        # @return [Boolean] whether a filter that reads it does not make it a part of the key
        def usual?(entry) = USUAL.key?(entry) || entry.start_with?(*USUAL_STARTS)

        # @param entry [String] of env
        # @return [String] as in "User-Agent"
        def name(entry) = entry.delete_prefix("HTTP_").split("_").map(&:capitalize).join("-")

        # @param field [String, nil] a Vary
        # @param declared [Hash{String=>true}] entries of env that belong to the key too
        # @return [Boolean] whether the key has all that it names
        def keyed?(field, declared)
          field.to_s.split(",").all? do |name|
            entry = Cache::Credentials.entry(name.strip)
            KEYED.key?(entry) || declared.key?(entry)
          end
        end
      end
    end
  end
end
