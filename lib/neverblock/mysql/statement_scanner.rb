# frozen_string_literal: true

require_relative "functions"
require_relative "keywords"

module NeverBlock
  class MySQL
    # Scans the tokens of one query, or of a statement that writes, for calls and for names of session state.
    #
    #   scanner = StatementScanner.new(lexer, lexer.tokens("select price(id) from items"))
    #   scanner.unsure    # => "it calls price(), which is not known to be harmless"
    #   scanner.residue   # => nil
    #
    # The only grammar that it knows: a name before a parenthesis is a call, unless it is certain that it is not.
    class StatementScanner
      # Words of a query that make it more than a read.
      WRITING = %w[delete insert replace update sql_calc_found_rows].to_h { |word| [word, true] }.freeze
      # Before `update` they make it a lock or a part of INSERT.
      LOCKS = %w[for key].freeze
      private_constant :WRITING, :LOCKS

      # @param lexer [Lexer]
      # @param tokens [Array<String>]
      # @param risky [Hash{String=>Object}] names of views and tables that may use session state, in lower case
      # @param shareable [Hash{String=>true}] harmless functions of the user's
      # @param body [Boolean] whether it is the body of a trigger, in which INTO fills local variables
      def initialize(lexer, tokens, risky: {}, shareable: {}, body: false)
        @body = body
        @lexer = lexer
        @tokens = tokens
        @risky = risky
        @shareable = shareable
        scan
      end

      # @return [String, nil] why it may leave session state, in words
      attr_reader :unsure

      # @return [String, nil] what it reads that earlier statements have left, in words
      attr_reader :residue

      # @return [Boolean] whether it writes, or its FOUND_ROWS() may be asked for
      def writes? = @writes == true

      private

      def scan
        @tokens.each_with_index do |token, at|
          case token
          when "(" then call(at - 1) if at > 0 && @lexer.name?(@tokens[at - 1])
          when "@" then @unsure = "it has a user variable"
          when ":=" then @unsure = "it assigns a variable"
          when "@@" then system_variable(at + 1)
          else word(token, at)
          end
          break if @unsure
        end
      end

      def word(token, at)
        if WRITING[token] && @tokens[at + 1] != "("
          @writes = true unless token == "update" && LOCKS.include?(@tokens[at - 1]) && at > 0
        elsif token == "into"
          @unsure = "it has INTO" unless into_table?(at)
        elsif token == "procedure" || (token == "value" && @tokens[at + 1] == "for")
          @unsure = "it has #{token.upcase}"
        end
        named(token) if @risky.any? && @lexer.name?(token)
      end

      # In all other places INTO fills variables or files.
      def into_table?(at) = @body || @tokens[0...at].any? { |token| token == "insert" || token == "replace" }

      def named(token)
        name = @lexer.unquoted(token)
        @unsure = "it names #{name}, #{@risky[name]}" if @risky.key?(name)
      end

      def system_variable(at)
        name = @lexer.unquoted(@tokens[at].to_s)
        name = @lexer.unquoted(@tokens[at + 2].to_s) if @tokens[at + 1] == "."
        @residue = "@@#{name}" if Functions::RESIDUE_VARIABLES[name]
      end

      def call(at)
        start = at
        start -= 2 while start >= 2 && @tokens[start - 1] == "." && @lexer.name?(@tokens[start - 2])
        before = @tokens[start - 1] if start > 0
        return if syntax?(@tokens[at], start == at, before)
        name = @lexer.unquoted(@tokens[at])
        return qualified(name) unless start == at
        return if Functions::HARMLESS[name] || @shareable[name]
        return @residue = "#{name.upcase}()" if Functions::RESIDUE[name] && @tokens[at + 2] == ")"
        @unsure = "it calls #{name}(), which is not known to be harmless"
      end

      def syntax?(token, alone, before)
        return true if Keywords::NAMING[before]
        return false unless alone
        Keywords::RESERVED[token] || Keywords::AFTER[token]&.include?(before)
      end

      def qualified(name)
        @unsure = "it calls #{name}() of a database" unless @shareable[name]
      end
    end
  end
end
