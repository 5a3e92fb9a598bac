# frozen_string_literal: true

require "strscan"
require_relative "../sql/quotes"

module NeverBlock
  class Postgres
    # Splits SQL into tokens as PostgreSQL does (scan.l), with standard_conforming_strings on: strings, comments and
    # quoted names are the same. It drops comments and blanks, and folds unquoted names to lower case. All other tokens
    # stay as they are written, so the first byte of a token says what it is:
    #
    #   Lexer.tokens(%(SELECT "Name" /* note */ FROM users WHERE id = $1 AND note = 'it''s'))
    #   # => ["select", "\"Name\"", "from", "users", "where", "id", "=", "$1", "and", "note", "=", "'it''s'"]
    #
    #   a-z, _, not ASCII   a name or key word, folded
    #   "                   a quoted name, with its quotes
    #   ' E B X N U         a string, with its quotes; the letter before it is upper case, as in no name
    #   $                   a parameter ($1) or a dollar-quoted string
    #   0-9 or . and 0-9    a number
    #   other               an operator or punctuation; "::", ":=" and ".." are one token
    module Lexer
      # The tokens of a text are uncertain: it is unterminated, in an unknown encoding, or not SQL.
      class Unreadable < StandardError
      end

      NAME = /[A-Za-z_\u0080-\u{10ffff}][A-Za-z0-9_$\u0080-\u{10ffff}]*/
      DIGITS = /\d(?:_?\d)*/
      NUMBER = /
        0[xX](?:_?\h)+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+|
        (?:#{DIGITS}(?:\.(?!\.)(?:#{DIGITS})?)?|\.#{DIGITS})(?:[eE][+-]?#{DIGITS})?
      /x
      OPERATOR = %r{(?:(?!--|/\*)[~!@\#^&|`?+\-*/%<>=])+}
      # A string with escapes that continues after a line break.
      CONTINUED = /'(?:[ \t\f\v]|--[^\n\r]*)*[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*'/
      DOLLAR = /\$(?:[A-Za-z_\u0080-\u{10ffff}][A-Za-z0-9_\u0080-\u{10ffff}]*)?\$/
      PARAMETER = /\$\d+/
      LINE_COMMENT = /--[^\n\r]*/
      COMMENT_EDGE = %r{/\*|\*/}
      private_constant :NAME, :DIGITS, :NUMBER, :OPERATOR, :CONTINUED, :DOLLAR, :PARAMETER,
        :LINE_COMMENT, :COMMENT_EDGE

      # Classes of tokens by their first byte. :prefix is a letter that may begin a string or a name.
      CLASSES = Array.new(256) { |byte| (byte >= 0x80) ? :name : :other }.tap do |classes|
        {name: "#{[*"a".."z", *"A".."Z"].join}_", prefix: "eEbBxXnNuU", number: "0123456789", space: " \t\n\r\f\v",
         single: "(),;[]", operator: "~!@#^&|`?+*%<>=", minus: "-", slash: "/", dot: ".", colon: ":", string: "'",
         quoted: "\"", dollar: "$"}.each { |name, bytes| bytes.each_byte { |byte| classes[byte] = name } }
      end.freeze
      SINGLES = Array.new(256) { |byte| byte.chr.freeze if byte < 0x80 }.freeze
      QUOTE = "'".ord
      private_constant :CLASSES, :SINGLES, :QUOTE

      # First bytes of tokens that a fingerprint leaves out. The letters are prefixes of strings.
      LITERALS = Array.new(256) { |byte| "'$0123456789EBXNU".include?(byte.chr) }.freeze
      LONGEST_FINGERPRINT = 300
      private_constant :LITERALS, :LONGEST_FINGERPRINT

      # @param sql [String]
      # @return [Array<String>]
      # @raise [Unreadable] if it is uncertain what PostgreSQL would read
      def self.tokens(sql)
        sql = readable(sql)
        scanner = StringScanner.new(sql)
        tokens = []
        at = 0
        while (byte = sql.getbyte(at))
          case (kind = CLASSES[byte])
          when :space then at += 1
          when :single
            tokens << SINGLES[byte]
            at += 1
          else
            scanner.pos = at
            token = token(scanner, sql, kind, byte)
            tokens << token if token
            at = scanner.pos
          end
        end
        tokens
      end

      # The statement without its values: equal for those that differ only in values and lengths of lists of values.
      # @param tokens [Array<String>] of {tokens}
      # @return [String]
      def self.fingerprint(tokens)
        words = []
        tokens.each do |token|
          if !LITERALS[token.getbyte(0)]
            words << token
            break if words.size > LONGEST_FINGERPRINT
          elsif words[-1] == "," && words[-2] == "?"
            words.pop
          else
            words << "?"
          end
        end
        words.join(" ")
      end

      # pg sends a text in the connection's encoding, and PostgreSQL converts it to the database's. No byte of a
      # character may be taken for a quote or backslash on the way.
      def self.readable(sql)
        encoding = sql.encoding
        return sql if (encoding == Encoding::UTF_8 || encoding == Encoding::US_ASCII) && sql.valid_encoding?
        if sql.ascii_only? || encoding == Encoding::BINARY
          copy = sql.dup.force_encoding(Encoding::UTF_8)
          return copy if copy.valid_encoding?
        end
        raise Unreadable, "its bytes are not valid UTF-8 (#{encoding})"
      end
      private_class_method :readable

      # @return [String, nil] nil: a comment
      def self.token(scanner, sql, kind, byte)
        case kind
        when :name then scanner.scan(NAME).tap { |name| name.downcase!(:ascii) }
        when :quoted then quoted(scanner, sql, "a quoted name")
        when :dot then scanner.scan("..") || scanner.scan(NUMBER) || single(scanner, byte)
        when :operator then scanner.scan(OPERATOR)
        when :dollar then scanner.scan(PARAMETER) || dollar_quoted(scanner, sql)
        when :string then quoted(scanner, sql, "a string")
        when :number then scanner.scan(NUMBER)
        when :prefix then prefixed(scanner, sql)
        when :minus then scanner.skip(LINE_COMMENT) ? nil : scanner.scan(OPERATOR)
        when :slash then scanner.scan(OPERATOR) || skip_comment(scanner)
        when :colon then scanner.scan(/:[:=]/) || single(scanner, byte)
        else raise Unreadable, "it has the byte 0x#{byte.to_s(16).rjust(2, "0")} outside of strings"
        end
      end
      private_class_method :token

      def self.single(scanner, byte)
        scanner.pos += 1
        SINGLES[byte]
      end
      private_class_method :single

      # @param before [Integer] bytes of its prefix
      def self.quoted(scanner, sql, what, before = 0, escapes: false)
        start = scanner.pos
        finish = start + before
        loop do
          finish = Sql::Quotes.end_of(sql, finish, escapes:) || unterminated(what)
          scanner.pos = finish - 1
          length = escapes && scanner.match?(CONTINUED) or break
          finish += length - 2
        end
        scanner.pos = finish
        sql.byteslice(start, finish - start)
      end
      private_class_method :quoted

      # A name; or the prefix of a string (E'', B'', X'', N'', U&'') or of a name with escapes (U&"").
      def self.prefixed(scanner, sql)
        following = sql.getbyte(scanner.pos + 1)
        if following == QUOTE && !scanner.match?(/u/i)
          literal = quoted(scanner, sql, "a string", 1, escapes: scanner.match?(/e/i))
          return literal.tap { |text| text[0] = text[0].upcase }
        end
        if following == "&".ord && scanner.match?(/u&['"]/i)
          raise Unreadable, "it has a name with escapes (U&\"…\")" if scanner.match?(/u&"/i)
          return quoted(scanner, sql, "a string", 2).tap { |text| text[0] = "U" }
        end
        scanner.scan(NAME).tap { |name| name.downcase!(:ascii) }
      end
      private_class_method :prefixed

      def self.dollar_quoted(scanner, sql)
        start = scanner.pos
        tag = scanner.scan(DOLLAR) or raise Unreadable, "it has a $ outside of strings and names"
        finish = sql.byteindex(tag, scanner.pos) || unterminated("a string after #{tag}")
        scanner.pos = finish + tag.bytesize
        sql.byteslice(start, scanner.pos - start)
      end
      private_class_method :dollar_quoted

      # Comments nest.
      def self.skip_comment(scanner)
        depth = 0
        loop do
          scanner.skip_until(COMMENT_EDGE) or unterminated("a comment")
          depth += (scanner.matched == "/*") ? 1 : -1
          return if depth.zero?
        end
      end
      private_class_method :skip_comment

      def self.unterminated(what) = raise(Unreadable, "#{what} in it does not end")
      private_class_method :unterminated
    end
  end
end
