# frozen_string_literal: true

require "strscan"
require_relative "field"

module NeverBlock
  class Cache
    # Entity tags: RFC 9110 §8.8.3.
    #
    #   EntityTag.weak_match?('W/"a"', '"a"')      # => true
    #   EntityTag.strong_match?('W/"a"', '"a"')    # => false
    #
    # What is not an entity tag, such as one without quotes, matches nothing.
    # @api private
    module EntityTag
      PART = /(?:W\/)?"[^"\x00-\x20\x7f]*+"/
      WHOLE = /\A#{PART}\z/o
      SEPARATORS = /[ \t,]*/
      OWS = /[ \t]*/
      # Bytes of the longest list that is read. It is longer than the header limits of servers.
      LONGEST = 64 << 10
      private_constant :PART, :WHOLE, :SEPARATORS, :OWS, :LONGEST

      class << self
        # @param value [String, Array<String>, nil] a field's value
        # @return [String, nil] the entity tag; nil: it is none
        def of(value)
          text = Field.text(value)
          text if text && WHOLE.match?(text)
        end

        # @param one [String] an entity tag
        # @param other [String] an entity tag
        # @return [Boolean] RFC 9110 §8.8.3.2
        def weak_match?(one, other) = one.delete_prefix("W/") == other.delete_prefix("W/")

        # @param one [String] an entity tag
        # @param other [String] an entity tag
        # @return [Boolean] RFC 9110 §8.8.3.2
        def strong_match?(one, other) = one == other && strong?(one)

        # @param tag [String] an entity tag
        # @return [Boolean]
        def strong?(tag) = !tag.start_with?("W/")

        # @param text [String] a list of entity tags
        # @param tag [String] an entity tag
        # @return [Boolean] whether one of the list matches weakly; false also for a list with an invalid member
        def listed?(text, tag)
          return true if text == tag
          return false if text.bytesize > LONGEST
          scanner = StringScanner.new(text)
          found = false
          until scanner.skip(SEPARATORS) && scanner.eos?
            member = scanner.scan(PART) or return false
            found ||= weak_match?(member, tag)
            scanner.skip(OWS)
            return false unless scanner.eos? || scanner.match?(/,/)
          end
          found
        end
      end
    end
  end
end
