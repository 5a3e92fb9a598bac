# frozen_string_literal: true

require "strscan"
require_relative "../sql/quotes"

module NeverBlock
  class MySQL
    # Splits SQL into tokens as MySQL and MariaDB do. It drops comments and blanks, and folds unquoted words to lower
    # case. Other tokens stay as they are written, so the first byte says what a token is:
    #
    #   Lexer.new.tokens("SELECT `Name`, @x FROM users -- all\nWHERE note = 'it''s'")
    #   # => ["select", "`Name`", ",", "@", "x", "from", "users", "where", "note", "=", "'it''s'"]
    #
    #   a-z, 0-9, _, $, not ASCII   a word or a number
    #   `                           a quoted name, with its quotes
    #   ' "                         a string with its quotes; with ANSI_QUOTES " is a quoted name
    #   @@                          of a system variable; @ of a user variable
    #   other                       an operator or punctuation, one byte each, but for ":="
    class Lexer
      # The tokens of a text are uncertain: it is unterminated, in another encoding, or has a comment that the server
      # executes.
      class Unreadable < StandardError
      end

      BLANK = /[ \t\r\n\f\v]+/n
      WORD = /[0-9A-Za-z_$\x80-\xff]+/n
      LINE_COMMENT = /#[^\n]*|--(?=[\x00-\x20\x7f]|\z)[^\n]*/n
      COMMENT = %r{/\*.*?\*/}mn
      # MySQL and MariaDB execute what is in these.
      EXECUTED = %r{/\*(?:!|M!)}n
      VARIABLE = /@@?/n
      ASSIGNMENT = /:=/n
      NULL = /\\N/n
      ENCODINGS = [Encoding::UTF_8, Encoding::US_ASCII, Encoding::BINARY].freeze
      private_constant(*constants(false) - [:Unreadable])

      # @param sql_mode [String] as in @@sql_mode
      def initialize(sql_mode = "")
        modes = sql_mode.to_s.upcase.split(",")
        @ansi_quotes = modes.include?("ANSI_QUOTES") || modes.include?("ANSI")
        @dialect = modes.include?("NO_BACKSLASH_ESCAPES") ? :mysql_plain : :mysql
        @escapes = @dialect == :mysql
      end

      # @return [Symbol] as for {Sql::ClassificationCache}
      attr_reader :dialect

      # @return [Boolean] whether " begins a name
      def ansi_quotes? = @ansi_quotes

      # @param sql [String]
      # @return [Array<String>] binary strings
      # @raise [Unreadable]
      def tokens(sql)
        scanner = StringScanner.new(readable(sql))
        tokens = []
        until scanner.eos?
          next if scanner.skip(BLANK)
          token = token(scanner)
          tokens << token if token
        end
        tokens
      end

      # @param token [String] of {#tokens}
      # @return [Boolean] whether it can be a name
      def name?(token) = token.match?(/\A[0-9A-Za-z_$\x80-\xff`]/n) || (@ansi_quotes && token.start_with?('"'))

      # @param token [String] of {#tokens}
      # @return [String] without quotes, in lower case
      def unquoted(token)
        quote = token[0]
        return token unless quote == "`" || quote == '"'
        token[1..-2].gsub(quote * 2, quote).downcase(:ascii)
      end

      private

      # The driver converts the text to the connection's encoding. No byte of a character may be taken for a quote.
      def readable(sql)
        return sql.b if ENCODINGS.include?(sql.encoding) || sql.ascii_only?
        raise Unreadable, "it is in the encoding #{sql.encoding}"
      end

      # @return [String, nil] nil: a comment
      def token(scanner)
        scanner.scan(WORD)&.then { |word| return word.downcase(:ascii) }
        case scanner.peek(1)
        when "'" then quoted(scanner, "a string", escapes: @escapes)
        when '"' then quoted(scanner, "a string", escapes: @escapes && !@ansi_quotes)
        when "`" then quoted(scanner, "a quoted name")
        when "#" then drop(scanner)
        when "-" then scanner.match?(LINE_COMMENT) ? drop(scanner) : scanner.getch
        when "/" then slash(scanner)
        when "@" then scanner.scan(VARIABLE)
        when ":" then scanner.scan(ASSIGNMENT) || scanner.getch
        when "\\" then scanner.scan(NULL) || scanner.getch # a word may follow at once
        when "\0" then raise Unreadable, "it has a zero byte outside of strings"
        else scanner.getch
        end
      end

      def quoted(scanner, what, escapes: false)
        start = scanner.pos
        scanner.pos = Sql::Quotes.end_of(scanner.string, start, escapes:) || unterminated(what)
        scanner.string.byteslice(start, scanner.pos - start)
      end

      def drop(scanner)
        scanner.skip(LINE_COMMENT)
        nil
      end

      def slash(scanner)
        return scanner.getch unless scanner.match?(%r{/\*}n)
        raise Unreadable, "it has a comment that the server executes (/*! … */)" if scanner.match?(EXECUTED)
        scanner.skip(COMMENT) or unterminated("a comment")
        nil
      end

      def unterminated(what) = raise(Unreadable, "#{what} in it does not end")
    end
  end
end
