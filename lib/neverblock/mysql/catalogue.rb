# frozen_string_literal: true

require_relative "classifier"

module NeverBlock
  class MySQL
    # What the text of a statement does not show: views, and triggers of tables, whose functions and assignments may use
    # session state; and stored functions that have the name of a built-in one. They are looked up when the first
    # connection is opened, and after a definition of this process.
    #
    #   Catalogue.risky(connection, Classifier.new)
    #   # => {"audited" => "which has a trigger that may leave session state (it has a user variable)"}
    #
    # A view or trigger is harmless if its own text is, and if it names no other that is not.
    # @api private
    module Catalogue
      VIEWS = <<~SQL
        SELECT TABLE_NAME, VIEW_DEFINITION FROM information_schema.VIEWS
        WHERE TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
      SQL
      TRIGGERS = <<~SQL
        SELECT EVENT_OBJECT_TABLE, ACTION_STATEMENT FROM information_schema.TRIGGERS
        WHERE EVENT_OBJECT_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
      SQL
      FUNCTIONS = <<~SQL
        SELECT ROUTINE_NAME FROM information_schema.ROUTINES
        WHERE ROUTINE_TYPE = 'FUNCTION' AND ROUTINE_SCHEMA NOT IN ('mysql', 'sys')
      SQL
      # Its views call its functions, which set variables.
      ALWAYS = {"sys" => "whose functions leave session state"}.freeze

      # One view or trigger.
      Item = Struct.new(:name, :kind, :text)
      private_constant :VIEWS, :TRIGGERS, :FUNCTIONS, :ALWAYS, :Item

      class << self
        # @param connection [Connection]
        # @param sql_mode [String]
        # @param shareable_functions [Array<String>]
        # @return [Hash{String=>String}, nil] the reasons by name, in lower case; nil: they can't be read
        def risky(connection, sql_mode: "", shareable_functions: [])
          left = items(connection, VIEWS, "is a view") + items(connection, TRIGGERS, "has a trigger")
          found = ALWAYS.merge(functions(connection))
          loop do
            lexer = Lexer.new(sql_mode)
            bad, left = left.partition { |item| reason(item, lexer, found, shareable_functions) }
            return found if bad.empty?
            bad.each { |item| found[item.name] ||= "which #{item.kind} that may use session state" }
          end
        rescue Trilogy::ProtocolError
          nil
        end

        private

        # A built-in function of other versions may be a user's in this one.
        def functions(connection)
          names = connection.query(FUNCTIONS, Trilogy::QUERY_FLAGS_DEFAULT).rows.flatten.map(&:downcase)
          names.select { |name| Functions::HARMLESS[name] }.to_h { |name| [name, "which is a stored function's name"] }
        end

        def items(connection, sql, kind)
          connection.query(sql, Trilogy::QUERY_FLAGS_DEFAULT).rows.map do |name, text|
            Item.new(name.downcase, kind, text.to_s)
          end
        end

        # @return [String, nil] why it is not harmless
        def reason(item, lexer, found, shareable_functions)
          return "its text can't be seen" if item.text.empty?
          tokens = lexer.tokens(item.text)
          return command(tokens) if item.kind == "has a trigger" && command(tokens)
          scanner = StatementScanner.new(lexer, tokens, risky: found.except(item.name), body: true,
            shareable: shareable_functions.to_h { |name| [name.downcase, true] })
          scanner.unsure || scanner.residue
        rescue Lexer::Unreadable => error
          error.message
        end

        # Statements that a trigger may have, and that leave session state.
        def command(tokens)
          word = tokens.find { |token| %w[call create drop execute prepare handler lock].include?(token) }
          return "it has #{word.upcase}" if word
          "it sets a variable" unless tokens.each_index.all? { |at| tokens[at] != "set" || row_set?(tokens, at) }
        end

        # SET NEW.column = …, or the SET of UPDATE and INSERT, which names columns.
        def row_set?(tokens, at)
          return true if tokens[0...at].reverse.take_while { |token| token != ";" }.any? do |token|
            %w[update insert replace].include?(token)
          end
          statement = tokens.drop(at + 1).take_while { |token| token != ";" }
          declared = declared(tokens)
          statement.each_index.all? do |one|
            statement[one] != "=" || (one > 2 && statement[one - 3] == "new") || declared.include?(statement[one - 1])
          end
        end

        # Local variables.
        def declared(tokens)
          tokens.each_index.select { |at| tokens[at] == "declare" }.flat_map do |at|
            tokens.drop(at + 1).take_while { |token| token != ";" }
          end
        end
      end
    end
  end
end
