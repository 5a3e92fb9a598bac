# frozen_string_literal: true

require "strscan"
require_relative "field"

module NeverBlock
  class Cache
    # The directives of a Cache-Control field: RFC 9111 §5.2.
    #
    #   control = CacheControl.parse('public, max-age="60", private="set-cookie"')
    #   control.key?("private")       # => true
    #   control.seconds("max-age")    # => 60
    #   control["private"]            # => "set-cookie"
    #
    # * A field that does not follow the grammar counts as `no-store`. "max-age=60; private" is one: a reader that takes
    #   what it understands of it would share a private response. So does a field of more than 8 KiB.
    # * A directive that limits fields, as `private="x"` or `no-cache="x"`, counts as the unlimited one.
    # * Of a repeated directive the smallest number counts, and an invalid number is 0 (§4.2.1).
    # @api private
    class CacheControl
      # Bytes of the longest field that is read.
      LONGEST = 8 << 10
      # Seconds that stand for all greater numbers (§1.2.2).
      MOST_SECONDS = 1 << 31

      SEPARATORS = /[ \t,]*/
      OWS = /[ \t]*/
      QUOTED = /"((?:[^"\\\x00-\x08\x0a-\x1f\x7f]++|\\[^\x00-\x08\x0a-\x1f\x7f])*+)"/
      DIGITS = /\A[0-9]+\z/
      private_constant :SEPARATORS, :OWS, :QUOTED, :DIGITS

      class << self
        # @param value [String, Array<String>, nil] a field's value
        # @return [CacheControl]
        def parse(value)
          text = Field.text(value)
          return NONE if text.nil? || text.empty?
          directives = read(text) if text.bytesize <= LONGEST
          directives ? new(directives) : MALFORMED
        end

        # The directives that this cache follows: those of the first targeted field that is valid and not empty, or else
        # of Cache-Control (RFC 9213 §2.2).
        # @param headers [Hash{String=>String, Array<String>}] a response's
        # @param targeted [Array<String>] names of targeted fields in lower case, the most important one first
        # @return [CacheControl]
        def of_response(headers, targeted: [])
          targeted.each do |name|
            found = TargetedField.parse(headers[name])
            return found if found
          end
          parse(headers["cache-control"])
        end

        # @api private
        # @param directives [Hash{String=>String, true}] is changed: gets a directive. Of two values it keeps the one
        #   with the smaller number
        # @return [void]
        def add(directives, name, value)
          before = directives[name]
          directives[name] = value if before.nil? || number(value) < number(before)
        end

        # @api private
        # @param value [String, true] a directive's
        # @return [Integer] 0 if it is no number
        def number(value)
          (String === value && DIGITS.match?(value)) ? [value.to_i, MOST_SECONDS].min : 0
        end

        private

        # @return [Hash, nil] nil: it does not follow the grammar
        def read(text)
          directives = {}
          scanner = StringScanner.new(text)
          until scanner.skip(SEPARATORS) && scanner.eos?
            name = scanner.scan(Field::TOKEN) or return
            value = scanner.skip(/=/) ? argument(scanner) : true
            return unless value
            scanner.skip(OWS)
            return unless scanner.eos? || scanner.match?(/,/)
            add(directives, name.downcase, value)
          end
          directives
        end

        def argument(scanner)
          token = scanner.scan(Field::TOKEN)
          return token if token
          return unless scanner.skip(QUOTED)
          text = scanner[1]
          text.include?("\\") ? text.gsub(/\\(.)/m, "\\1") : text
        end
      end

      # @param directives [Hash{String=>String, true}] by names in lower case
      # @param malformed [Boolean]
      # @param targeted [Boolean]
      def initialize(directives, malformed: false, targeted: false)
        @directives = directives.freeze
        @malformed = malformed
        @targeted = targeted
        freeze
      end

      # @param name [String] in lower case
      # @return [Boolean]
      def key?(name) = @directives.key?(name)

      # @param name [String] in lower case
      # @return [String, true, nil] its argument; true: it has none; nil: there is no such directive
      def [](name) = @directives[name]

      # @param name [String] in lower case
      # @return [Integer, nil] at most 2**31, and 0 if invalid; nil: there is no such directive
      def seconds(name)
        value = @directives[name]
        value && self.class.number(value)
      end

      # @return [Boolean] whether the field is not a valid one, and counts as `no-store`
      def malformed? = @malformed

      # @return [Boolean] whether it is of a targeted field, so that Expires doesn't count
      def targeted? = @targeted

      # @return [Boolean] whether there are no directives
      def empty? = @directives.empty?

      # @return [Boolean] whether `must-understand` suspends `no-store`, for a status that the cache understands
      #   (RFC 9111 §5.2.2.3)
      def must_understand? = @directives["must-understand"] == true

      NONE = new({})
      MALFORMED = new({"no-store" => true}, malformed: true)
    end
  end
end

require_relative "targeted_field"
