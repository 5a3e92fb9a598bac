# frozen_string_literal: true

require_relative "accept_encoding"
require_relative "field"

module NeverBlock
  class Cache
    # The request headers on which a response depends: RFC 9110 §12.5.5, RFC 9111 §4.1.
    #
    #   vary = Vary.new("Accept-Language, Accept")
    #   vary.names                                         # => ["accept", "accept-language"]
    #   vary.values({"HTTP_ACCEPT" => " a/b ,c/d"})        # => [["accept", "a/b,c/d"], ["accept-language", nil]]
    #
    # A response may be used for requests with equal values. A missing field is equal to a missing one only.
    #
    # A field with `*`, an invalid name or too many names stands for anything (`any?`), and no request has its values.
    # @api private
    class Vary
      MOST_NAMES = 16
      # Bytes of the longest field that is read.
      LONGEST = 4 << 10
      # Request fields that are not lists: a space beside a comma may mean something.
      VERBATIM = %w[
        authorization cookie date host if-modified-since origin proxy-authorization referer user-agent
      ].freeze
      # So it may in quoted strings and comments.
      QUOTED = /["(\\]/
      ENCODINGS = "accept-encoding"
      # Its tags are equal without regard to case (RFC 4647 §2).
      LANGUAGES = "accept-language"
      CREDENTIALS = %w[authorization cookie].freeze
      UNPREFIXED = {"content-type" => "CONTENT_TYPE", "content-length" => "CONTENT_LENGTH"}.freeze
      private_constant :MOST_NAMES, :LONGEST, :VERBATIM, :QUOTED, :ENCODINGS, :LANGUAGES, :CREDENTIALS, :UNPREFIXED

      # @return [Array<String>] sorted, in lower case, frozen; empty for anything
      attr_reader :names

      # @param field [String, Array<String>, nil] a response's Vary
      def initialize(field)
        names = read(Field.text(field))
        @any = names.nil?
        @names = (names || []).freeze
        @entries = @names.map { |name| UNPREFIXED[name] || "HTTP_#{name.upcase.tr("-", "_")}".freeze }.freeze
        freeze
      end

      # @return [Boolean] whether the response depends on more than can be compared
      def any? = @any

      # @return [Boolean] whether it depends on no header
      def empty? = !@any && @names.empty?

      # @return [Boolean] whether it depends on Cookie or Authorization
      def credentials? = @names.any? { |name| CREDENTIALS.include?(name) }

      # @param env [Hash] a request's
      # @param codings [Array<String>, nil] all content codings that responses of this URL have; nil: unknown
      # @return [Array<Array(String, String)>] name and value of each header, frozen; the value is nil if there is none.
      #   For anything it is equal to no other
      def values(env, codings: nil)
        return [["*", Object.new]] if @any
        @names.zip(@entries).map do |name, entry|
          value = env[entry]
          [name, value && normal(name, Field.text(value).to_s, codings)].freeze
        end.freeze
      end

      # @param other [Object]
      # @return [Boolean] whether it names the same headers; anything is equal to itself only
      def ==(other) = equal?(other) || (Vary === other && !@any && !other.any? && @names == other.names)
      alias_method :eql?, :==

      # @return [Integer]
      def hash = @names.hash

      private

      # @return [Array<String>, nil] nil: anything
      def read(text)
        return [] if text.nil?
        return if text.bytesize > LONGEST
        names = Field.members(text).uniq.map(&:-@)
        return if names.size > MOST_NAMES || names.include?("*")
        names.sort if names.all? { |name| Field::NAME.match?(name) }
      end

      def normal(name, text, codings)
        return AcceptEncoding.fold(text, codings) if name == ENCODINGS
        text = Field.trim(text)
        text = text.downcase if name == LANGUAGES
        if text.include?(",") && !VERBATIM.include?(name) && !QUOTED.match?(text)
          return text.split(",", -1).map { |member| Field.trim(member) }.join(",").freeze
        end
        text.frozen? ? text : text.dup.freeze
      end
    end
  end
end
