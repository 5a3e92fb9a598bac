# frozen_string_literal: true

require "json"
require "zlib"
require_relative "cursor_value"
require_relative "not_found"

module NeverBlock
  module Pages
    # The text that stands for a row's place in an order: the values of the order's columns, as JSON in base64url.
    #
    #   Cursor.encode(keyset, [time, 5])     # => "WzI4..."
    #   Cursor.decode(keyset, "WzI4...")     # => [time, 5]
    #   Cursor.decode(keyset, "abc")         # raises NotFound
    #
    # It is not signed: with any cursor a client sees rows of the list only, which it may read from the beginning as
    # well. But nothing in it is trusted: the columns and directions, the number of the values and their types are
    # checked, and a text that `encode` would not have made is refused, so that a place has one URL.
    # @api private
    module Cursor
      # Bytes; the route's limit too.
      LONGEST = 2048
      FORM = /\A[A-Za-z0-9_-]{1,#{LONGEST}}\z/
      private_constant :FORM

      class << self
        # @param keyset [Keyset]
        # @param values [Array] one of each column, as for the database
        # @return [String]
        # @raise [ConfigurationError] if a value can't be in a cursor
        def encode(keyset, values)
          dumped = keyset.columns.zip(values).map do |column, value|
            dump = CursorValue.dump(column.type, value)
            next dump unless dump.nil?
            raise ConfigurationError, "page_of: by: a cursor can't have the value #{value.inspect[0, 80]} of " \
              "#{column.name}; leave such rows out of the relation"
          end
          text = [JSON.generate([sign(keyset), *dumped])].pack("m0").tr("+/", "-_").delete("=")
          return text if text.bytesize <= LONGEST
          raise ConfigurationError, "page_of: by: a cursor of #{text.bytesize} bytes is too long for a URL, at most " \
            "#{LONGEST}; use shorter columns than #{keyset.columns.map(&:name).join(", ")}"
        end

        # @param keyset [Keyset]
        # @param text [String]
        # @return [Array] one value of each column
        # @raise [NotFound]
        def decode(keyset, text)
          values = values(keyset, text)
          return values if values && encode(keyset, values) == text
          raise NotFound, "#{text.to_s.scrub[0, 40].inspect} is not a cursor of this list"
        end

        private

        def values(keyset, text)
          return unless String === text && text.ascii_only? && FORM.match?(text)
          sign, *dumped = parse(text)
          return unless sign == sign(keyset) && dumped.size == keyset.columns.size
          values = keyset.columns.zip(dumped).map { |column, dump| CursorValue.load(column.type, dump) }
          values if values.none?(&:nil?) && keyset.serializable?(values)
        end

        # @return [Array, nil]
        def parse(text)
          json = text.tr("-_", "+/").ljust((text.size + 3) / 4 * 4, "=").unpack1("m0")
          list = JSON.parse(json.force_encoding(Encoding::UTF_8), max_nesting: 1)
          list if Array === list
        rescue ArgumentError, JSON::ParserError, EncodingError
          nil
        end

        # A cursor of another order is refused.
        def sign(keyset) = Zlib.crc32(keyset.to_s)
      end
    end
  end
end
