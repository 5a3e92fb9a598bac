# frozen_string_literal: true

module NeverBlock
  class Cache
    # Reads field values as Rack has them: nil, a String, or an Array with a String for each line.
    #
    #   Field.text(["a", "b"])           # => "a, b"
    #   Field.members("Close, X-Hop")    # => ["close", "x-hop"]
    #
    # A text is ASCII or binary. So no regular expression raises on invalid bytes, and texts that were read with
    # different encodings are equal if their bytes are.
    # @api private
    module Field
      # RFC 9110 §5.6.2, a part of an expression.
      TOKEN = /[!%&'*+.^_`|~#0-9A-Za-z$-]+/
      # A field name in the lower case of Rack 3.
      NAME = /\A[!%&'*+.^_`|~#0-9a-z$-]+\z/
      # Bytes that no field value has (RFC 9110 §5.5): they end a line, or confuse a recipient.
      CONTROL = /[\x00-\x08\x0a-\x1f\x7f]/

      NOT_BLANK = /[^ \t]/
      private_constant :NOT_BLANK

      class << self
        # @param value [String, Array<String>, nil]
        # @return [String, nil] the lines, joined as RFC 9110 §5.3 says; nil: there is none
        def text(value)
          case value
          when String then plain(value)
          when nil then nil
          when Array then (value.map { |line| plain(line.to_s) }.join(", ") unless value.empty?)
          else plain(value.to_s)
          end
        end

        # @param text [String]
        # @return [String] the same bytes
        def plain(text) = text.ascii_only? ? text : text.b

        # @param value [String, Array<String>, nil] a list of tokens
        # @return [Array<String>] in lower case
        def members(value)
          text = text(value)
          return [] if text.nil?
          text.downcase.split(",").map { |member| trim(member) }.reject(&:empty?)
        end

        # Removes spaces and tabs around a text. `strip` would remove more, such as a NUL, which hides an invalid text.
        # @param text [String]
        # @return [String]
        def trim(text)
          return text unless blank?(text.getbyte(0)) || blank?(text.getbyte(-1))
          first = text.index(NOT_BLANK) or return ""
          text[first..text.rindex(NOT_BLANK)]
        end

        private

        def blank?(byte) = byte == 32 || byte == 9
      end
    end
  end
end
