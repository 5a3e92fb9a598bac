# frozen_string_literal: true

module NeverBlock
  class MySQL
    # Escapes text for a string literal, as Trilogy#escape does, without a connection.
    #
    #   Escape.call("it's")                            # => "it\\'s"
    #   Escape.call("it's", plain_backslashes: true)   # => "it''s", with NO_BACKSLASH_ESCAPES
    # @api private
    module Escape
      SPECIAL = /["\0'\\\n\r\x1a]/n
      ESCAPED = {
        '"' => '\\"', "\0" => "\\0", "'" => "\\'", "\\" => "\\\\", "\n" => "\\n", "\r" => "\\r", "\x1a" => "\\Z"
      }.freeze
      # The same for texts that are no bytes.
      CHARACTER = /["\0'\\\n\r\x1a]/
      # Encodings in which a byte of ASCII is always a character.
      BYTEWISE = [Encoding::UTF_8, Encoding::US_ASCII, Encoding::BINARY].freeze
      private_constant :SPECIAL, :ESCAPED, :CHARACTER, :BYTEWISE

      # @param string [String] in an encoding that contains ASCII
      # @param plain_backslashes [Boolean] whether the sql_mode has NO_BACKSLASH_ESCAPES
      # @param encoding [Encoding, nil] the connection's, for what the driver's newer releases do; nil: the text's stays
      # @return [String]
      # @raise [EncodingError]
      def self.call(string, plain_backslashes: false, encoding: nil)
        string = encoded(string, encoding) if encoding
        unless string.encoding.ascii_compatible?
          raise Encoding::CompatibilityError, "input string must be ASCII-compatible"
        end
        return by_characters(string, plain_backslashes, encoding) unless encoding.nil? || BYTEWISE.include?(encoding)
        bytes = string.b
        escaped = plain_backslashes ? bytes.gsub("'", "''") : bytes.gsub(SPECIAL, ESCAPED)
        escaped.force_encoding(encoding || string.encoding)
      end

      # In GBK, Big5 and Shift_JIS the second byte of a character may look like a backslash. After half a character the
      # server would take the backslash that is written here for the other half.
      def self.by_characters(string, plain_backslashes, encoding)
        text = string.dup.force_encoding(encoding)
        raise EncodingError, "the text to escape is not valid #{encoding}" unless text.valid_encoding?
        plain_backslashes ? text.gsub("'", "''") : text.gsub(CHARACTER, ESCAPED)
      end
      private_class_method :by_characters

      def self.encoded(string, encoding)
        return string if string.encoding == encoding || string.encoding == Encoding::BINARY
        (string.ascii_only? && encoding.ascii_compatible?) ? string : string.encode(encoding)
      end
      private_class_method :encoded
    end
  end
end
