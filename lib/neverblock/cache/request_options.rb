# frozen_string_literal: true

require_relative "../errors"
require_relative "credentials"
require_relative "request_marks"

module NeverBlock
  class Cache
    # How {RequestPolicy} and {Key} judge requests: the part of a cache's options that they need.
    #
    #   options = RequestOptions.new(credential_headers: ["x-tenant"], ignore_params: ["utm_source"])
    #   options.credential_entries    # => ["HTTP_X_TENANT"]
    # @api private
    class RequestOptions
      CREDENTIALS = %i[bypass ignore].freeze
      SCHEMES = [nil, "http", "https"].freeze
      private_constant :CREDENTIALS, :SCHEMES

      # @return [:bypass, :ignore] whether requests with credentials bypass the cache
      attr_reader :credentials
      # @return [Array<String>] names in env of the headers that are credentials, beside the usual ones
      attr_reader :credential_entries
      # @return [Hash{String=>true}] entries of env that decide: {RequestMarks}
      attr_reader :marks
      # @return [Hash{Symbol=>Object}] for {Key.of}
      attr_reader :key
      # @return [Boolean] whether proxies tell scheme and host
      attr_reader :trusted
      # @return [String, nil] that all requests have
      attr_reader :scheme

      # @param credentials [:bypass, :ignore] :ignore: requests of all users share responses
      # @param credential_headers [Array<String>] further headers that are credentials, as in "x-tenant"
      # @param ignore_params [Array<String>] parameters of the query on which no response depends
      # @param sort_query [Boolean] whether the order of parameters doesn't matter
      # @param trusted [Boolean] whether Forwarded and X-Forwarded-* tell scheme, host and port
      # @param scheme ["http", "https", nil] the scheme of all requests
      # @raise [ConfigurationError]
      def initialize(credentials: :bypass, credential_headers: [], ignore_params: [], sort_query: false, trusted: false,
        scheme: nil)
        @credentials = one_of(:credentials, credentials, CREDENTIALS)
        credential_headers = names(:credential_headers, credential_headers)
        @credential_entries = credential_headers.map { |name| Credentials.entry(name) }.freeze
        @marks = RequestMarks.table(@credential_entries)
        @trusted = one_of(:trusted, trusted, [true, false])
        @scheme = one_of(:scheme, scheme, SCHEMES)
        @key = {ignore_params: names(:ignore_params, ignore_params).dup.freeze,
                sort_query: one_of(:sort_query, sort_query, [true, false]), trusted:, scheme:}.freeze
        freeze
      end

      private

      def one_of(name, value, allowed)
        return value if allowed.include?(value)
        raise ConfigurationError, "#{name}: #{value.inspect} is not one of #{allowed.map(&:inspect).join(", ")}"
      end

      def names(name, value)
        return value if Array === value && value.all? { |one| String === one && !one.empty? }
        raise ConfigurationError, "#{name}: #{value.inspect} is not a list of names, as in [\"x-tenant\"]"
      end

      DEFAULT = new
    end
  end
end
