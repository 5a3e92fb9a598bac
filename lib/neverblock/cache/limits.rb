# frozen_string_literal: true

require_relative "../runtime/value_type"
require_relative "field"

module NeverBlock
  class Cache
    # What a store accepts. Whatever is longer is not stored; nothing is shortened, because an entry without one of its
    # tags could not be purged by that tag.
    #
    #   limits = Limits.new(bytes: 256 << 20, max_entry: 64 << 20)
    #   limits.fit?("https://example.org/", entry)    # => true
    # @api private
    class Limits
      COUNT = ValueType.count(least: 1)
      SIZE = ValueType.bytes(least: 1)
      # By default an entry may take this part of a store.
      SHARE = 4
      # Bytes of a tag; they are names.
      LONGEST_TAG = 256
      # Request headers that select a response, and their bytes.
      MOST_VARY = 128
      STATUSES = 100..999
      # A header with these would be several headers, or none, for whatever reads the response (RFC 9110 §5.5).
      UNSAFE = /[\r\n\0]/
      private_constant :COUNT, :SIZE, :SHARE, :LONGEST_TAG, :MOST_VARY, :STATUSES, :UNSAFE

      # @param text [String]
      # @return [Boolean] whether it can be a header's name, in lower case as in Rack (RFC 9110 §5.6.2)
      def self.name?(text) = Field::NAME.match?(Field.plain(text))

      # @param text [String] a header's value
      # @return [Boolean] whether it is one line
      def self.line?(text) = !UNSAFE.match?(Field.plain(text))

      # @return [Integer] bytes of all entries
      attr_reader :bytes
      # @return [Integer] bytes of one entry
      attr_reader :max_entry
      # @return [Integer] entries of one key
      attr_reader :max_variants

      # @param bytes [Integer, String] of all entries
      # @param max_entry [Integer, String, nil] bytes of one; nil: a quarter of all
      # @param max_variants [Integer] entries of one key
      # @param max_tags [Integer] tags of one entry
      # @param max_key [Integer, String] bytes of a key
      # @param max_headers [Integer, String] bytes of an entry's headers, and of the request headers that selected it
      # @raise [ConfigurationError]
      def initialize(bytes:, max_entry: nil, max_variants: 32, max_tags: 32, max_key: 8 << 10, max_headers: 64 << 10)
        @bytes = check(SIZE, :bytes, bytes)
        @max_entry = max_entry.nil? ? @bytes / SHARE : check(SIZE, :max_entry, max_entry)
        @max_variants = check(COUNT, :max_variants, max_variants)
        @max_tags = check(COUNT, :max_tags, max_tags)
        @max_key = check(SIZE, :max_key, max_key)
        @max_headers = check(SIZE, :max_headers, max_headers)
        freeze
      end

      # @param key [String]
      # @param entry [Entry]
      # @return [Boolean] whether a store accepts them
      def fit?(key, entry)
        String === key && key.bytesize <= @max_key && entry.bytes <= [@max_entry, @bytes].min &&
          Integer === entry.status && STATUSES.cover?(entry.status) && times?(entry) && headers?(entry.headers) &&
          vary?(entry.vary) && tags?(entry.tags)
      end

      private

      def check(type, name, value) = type.setting(value) { "#{name}:" }

      def times?(entry) = [entry.requested_at, entry.responded_at].all? { |time| Float === time && time.finite? }

      def headers?(headers)
        left = @max_headers
        headers.all? do |name, value|
          lines = Array(value)
          left -= lines.sum(name.bytesize) { |line| line.bytesize + 4 }
          left >= 0 && Limits.name?(name) && lines.all? { |line| Limits.line?(line) }
        end
      end

      def vary?(vary)
        return false if vary.size > MOST_VARY
        left = @max_headers
        vary.all? do |name, value|
          next false unless [name, *value].all?(String)
          (left -= name.bytesize + value.to_s.bytesize) >= 0
        end
      end

      def tags?(tags)
        tags.size <= @max_tags && tags.all? { |tag| String === tag && tag.bytesize.between?(1, LONGEST_TAG) }
      end
    end
  end
end
