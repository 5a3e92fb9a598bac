# frozen_string_literal: true

require_relative "entity_tag"
require_relative "field"
require_relative "http_date"
require_relative "stored_headers"

module NeverBlock
  class Cache
    # Conditional requests, of clients to the cache and of the cache to the app: RFC 9110 §13, RFC 9111 §4.3.
    #
    #   stored = {"etag" => '"a"', "date" => "Sun, 06 Nov 1994 08:49:37 GMT"}
    #   Conditional.not_modified?({"REQUEST_METHOD" => "GET", "HTTP_IF_NONE_MATCH" => '"a"'},
    #     status: 200, headers: stored)                                  # => true: the client gets a 304
    #   Conditional.headers_for(stored)                                  # => {"HTTP_IF_NONE_MATCH" => "\"a\""}
    #   Conditional.selects?(stored, {"etag" => '"a"'})                  # => true: the app's 304 is of this response
    #   Conditional.merge(stored, {"etag" => '"a"', "x-new" => "1"})     # the stored headers, updated
    # @api private
    module Conditional
      # The conditions of a request. Those of a client don't belong into the cache's own request to the app.
      ENTRIES = %w[
        HTTP_IF_MATCH HTTP_IF_NONE_MATCH HTTP_IF_MODIFIED_SINCE HTTP_IF_UNMODIFIED_SINCE HTTP_IF_RANGE
      ].freeze
      # RFC 9110 §15.4.5; Last-Modified and the targeted fields guide caches; the others say what a cache has done.
      NOT_MODIFIED = %w[
        cache-control cdn-cache-control content-location date etag expires last-modified vary age cache-status
      ].freeze
      # A 304 has no content. What it says of content is often a framework's default, and not true of the stored one.
      # RFC 9111 §3.2 demands this of Content-Length, and allows it of the others for the sake of integrity.
      OF_CONTENT = %w[
        content-length content-encoding content-range content-type content-md5 content-digest
      ].freeze
      METHODS = %w[GET HEAD].freeze
      private_constant :NOT_MODIFIED, :OF_CONTENT, :METHODS

      class << self
        # @param env [Hash] a request's
        # @param status [Integer] of the stored response
        # @param headers [Hash] of the stored response
        # @param received_at [Numeric, nil] seconds since 1970: when a response without a Date came
        # @return [Boolean] whether the request gets a 304 in place of the stored response
        def not_modified?(env, status:, headers:, received_at: nil)
          return false unless status == 200 && METHODS.include?(env["REQUEST_METHOD"])
          # If-Modified-Since counts only without an If-None-Match, matching or not (RFC 9110 §13.1.3).
          listed = env["HTTP_IF_NONE_MATCH"]
          return none_match?(Field.trim(Field.text(listed).to_s), headers) if listed
          since = env["HTTP_IF_MODIFIED_SINCE"]
          !since.nil? && unmodified?(since, headers, received_at)
        end

        # @param headers [Hash] of the stored response
        # @return [Hash{String=>String}] entries of the env of a request that validates it (RFC 9111 §4.3.1); empty: it
        #   can't be validated
        def headers_for(headers)
          entries = {}
          tag = EntityTag.of(headers["etag"])
          entries["HTTP_IF_NONE_MATCH"] = tag if tag
          modified = Field.text(headers["last-modified"])
          entries["HTTP_IF_MODIFIED_SINCE"] = modified if HttpDate.parse(modified)
          entries
        end

        # @param headers [Hash] a response's
        # @return [Boolean] whether it can be validated
        def validator?(headers) = !EntityTag.of(headers["etag"]).nil? || !HttpDate.parse(headers["last-modified"]).nil?

        # Whether the app's 304 is of the stored response (RFC 9111 §4.3.4). If it isn't, the stored response can't be
        # used, and the app must be asked without conditions.
        # @param stored [Hash] headers
        # @param headers [Hash] of the 304
        # @return [Boolean]
        def selects?(stored, headers)
          tag = Field.text(headers["etag"])
          modified = Field.text(headers["last-modified"])
          # An entity tag is more accurate than a date: where there is one, only the tag counts.
          return same_tag?(stored, tag) if tag
          return same_date?(stored, modified) if modified
          # It has neither, though RFC 9110 §15.4.5 asks for them. The cache's request had this response's validators
          # and no others: one of them has matched.
          true
        end

        # Updates stored headers (RFC 9111 §3.2). What may be done with the response then depends on the result:
        # {ResponsePolicy.of_validation}.
        # @param stored [Hash] headers
        # @param headers [Hash] of a 304 that {.selects?}
        # @param received_at [Numeric, nil] seconds since 1970: the Date of a 304 without one; nil: it has none
        # @return [Hash] frozen
        def merge(stored, headers, received_at: nil)
          fresh = StoredHeaders.of(headers, received_at:).except(*OF_CONTENT)
          # These two say how old the stored response was before.
          stored.except("age", "date").merge(fresh).freeze
        end

        # @param headers [Hash] of a stored response, with Age and Cache-Status
        # @return [Hash] those that a 304 has
        def headers_of_not_modified(headers) = headers.slice(*NOT_MODIFIED)

        private

        def none_match?(list, headers)
          return true if list == "*"
          tag = EntityTag.of(headers["etag"])
          !tag.nil? && EntityTag.listed?(list, tag)
        end

        # RFC 9111 §4.3.2: without a Last-Modified the Date counts.
        def unmodified?(since, headers, received_at)
          since = HttpDate.parse(since) or return false
          modified = headers["last-modified"]
          time = modified.nil? ? HttpDate.parse(headers["date"]) || received_at : HttpDate.parse(modified)
          !time.nil? && time <= since
        end

        def same_tag?(stored, tag)
          tag = EntityTag.of(tag)
          own = EntityTag.of(stored["etag"])
          return false if tag.nil? || own.nil?
          EntityTag.strong?(tag) ? EntityTag.strong_match?(tag, own) : EntityTag.weak_match?(tag, own)
        end

        def same_date?(stored, modified)
          time = HttpDate.parse(modified)
          !time.nil? && time == HttpDate.parse(stored["last-modified"])
        end
      end
    end
  end
end
