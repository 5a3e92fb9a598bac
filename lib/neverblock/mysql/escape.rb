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
      private_constant :SPECIAL, :ESCAPED

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
        bytes = string.b
        escaped = plain_backslashes ? bytes.gsub("'", "''") : bytes.gsub(SPECIAL, ESCAPED)
        escaped.force_encoding(encoding || string.encoding)
      end

      def self.encoded(string, encoding)
        return string if string.encoding == encoding || string.encoding == Encoding::BINARY
        (string.ascii_only? && encoding.ascii_compatible?) ? string : string.encode(encoding)
      end
      private_class_method :encoded
    end
  end
end
