# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The beginning of a text for messages and the log: on one line, and in UTF-8, so that it fits into any message.
    #
    #   Excerpt.of("select 'é'\n  from items".encode("UTF-16LE"))   # => "select 'é' from items"
    #
    # @api private
    module Excerpt
      # Characters.
      LONGEST = 200
      private_constant :LONGEST

      # @param text [String, nil] of any bytes, encoding and length
      # @return [String]
      def self.of(text)
        beginning = text.to_s[0, 4 * LONGEST]
        beginning.force_encoding(Encoding::UTF_8) if beginning.encoding == Encoding::BINARY
        in_utf8(beginning).scrub("?").gsub(/\s+/, " ")[0, LONGEST]
      end

      def self.in_utf8(text)
        text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace, replace: "?")
      rescue EncodingError # Ruby can't convert it, such as UTF-7
        text.force_encoding(Encoding::UTF_8)
      end
      private_class_method :in_utf8
    end
  end
end
