# frozen_string_literal: true

require_relative "../sql/classification_cache"
require_relative "lexer"
require_relative "classification"
require_relative "statement_scanner"

module NeverBlock
  class MySQL
    # Classifies a statement by its text and by the names of risky views and tables. When in doubt it says :session: the
    # connection is then used by one virtual connection alone, and closed at its end.
    #
    #   classifier = Classifier.new(sql_mode: "STRICT_ALL_TABLES", risky: {"audited" => "which has a trigger that …"})
    #   classifier.call("select lower(name) from users").kind        # => :read
    #   classifier.call("insert into audited values (1)").reason     # => "it names audited, which has a trigger that …"
    class Classifier
      QUERIES = %w[select with values table].to_h { |word| [word, true] }.freeze
      WRITES = %w[insert replace update delete].to_h { |word| [word, true] }.freeze
      DEFINITIONS = %w[create alter drop truncate rename optimize analyze].to_h { |word| [word, true] }.freeze
      EXPLAINS = %w[explain describe desc].to_h { |word| [word, true] }.freeze
      SHOWN = %w[
        collation columns create databases engines fields grants index indexes keys processlist schemas status table
        tables triggers variables
      ].to_h { |word| [word, true] }.freeze
      SHOW_MODIFIERS = %w[full extended].freeze
      TRANSACTIONS = {
        [] => true, %w[work] => true, %w[and no chain] => true, %w[and chain] => true, %w[no release] => true
      }.freeze
      MESSAGES = %w[warnings errors].to_h { |word| [word, true] }.freeze
      # Kinds that depend on words alone, not on literals.
      BY_SHAPE = ->(found) { found.kind == :read || found.kind == :write }
      # Character sets in which no byte outside of ASCII is a blank, a quote or a backslash for the server.
      SAFE_CHARSETS = /\A(?:utf8|ascii\z|binary\z)/
      private_constant(*constants(false))

      # @param sql_mode [String] as in @@sql_mode
      # @param charset [String] as in @@character_set_client
      # @param risky [Hash{String=>String}, nil] reasons by name of view or table, in lower case; nil: they are unknown,
      #   so that no statement is sure
      # @param shareable_functions [Array<String>] functions of the user's that neither leave nor read session state
      def initialize(sql_mode: "", charset: "utf8mb4", risky: {}, shareable_functions: [])
        @lexer = Lexer.new(sql_mode)
        @foreign = session("it has bytes outside of ASCII, in #{charset}") unless SAFE_CHARSETS.match?(charset)
        @risky = risky
        @shareable = shareable_functions.to_h { |name| [name.downcase, true] }
        @cache = Sql::ClassificationCache.new(@lexer.dialect, by_shape: BY_SHAPE) { |sql| classify(sql) }
      end

      # @param sql [String]
      # @return [Classification] frozen
      def call(sql) = (@foreign && !sql.ascii_only?) ? @foreign : @cache.call(sql)

      # @param sql [String] of a query
      # @return [StatementScanner]
      # @raise [Lexer::Unreadable]
      def scan(sql) = scanner(@lexer.tokens(sql))

      private

      def classify(sql)
        tokens = @lexer.tokens(sql)
        tokens.pop while tokens[-1] == ";"
        found = if tokens.include?(";") then session("several statements")
        else
          tokens.empty? ? session("no statement") : judge(tokens)
        end
        found.reads_residue? ? found.with(residue: residue(tokens)) : found
      rescue Lexer::Unreadable => error
        session("it can't be read: #{error.message}")
      end

      # A column's name does no harm here.
      def residue(tokens)
        names = tokens.map { |token| @lexer.unquoted(token) }
        names.select { |name| Functions::RESIDUE[name] || Functions::RESIDUE_VARIABLES[name] || MESSAGES[name] }
          .uniq.join(", ").upcase
      end

      def judge(tokens)
        first = tokens.find { |token| token != "(" }
        return session("the views and triggers of the server could not be read") if @risky.nil? && data?(first)
        return query(tokens, :read) if QUERIES[first]
        return query(tokens, :write) if WRITES[first]
        return definition(tokens) if DEFINITIONS[first]
        return explain(tokens) if EXPLAINS[first]
        command(first, tokens.drop(1))
      end

      def data?(first) = QUERIES[first] || WRITES[first] || EXPLAINS[first] || first == "analyze"

      def scanner(tokens) = StatementScanner.new(@lexer, tokens, risky: @risky || {}, shareable: @shareable)

      def query(tokens, kind)
        scanner = scanner(tokens)
        return session(scanner.unsure) if scanner.unsure
        return Classification.new(kind: :residue, reason: "it reads #{scanner.residue}") if scanner.residue
        Classification.new(kind: (kind == :write || scanner.writes?) ? :write : :read, reason: tokens[0].upcase)
      end

      # EXPLAIN ANALYZE executes the statement; EXPLAIN of a table is like SHOW COLUMNS.
      def explain(tokens)
        found = query(tokens, :read)
        (found.kind == :write) ? session("EXPLAIN of a write") : found
      end

      def definition(tokens)
        return explain(tokens) if tokens[0] == "analyze" && tokens[1] != "table"
        return session("#{tokens[0].upcase} TEMPORARY") if tokens.include?("temporary")
        return session("#{tokens[0].upcase} of the database, which may be the session's") if replaces_database?(tokens)
        return session("#{tokens[0].upcase} with a user variable") if tokens.include?("@") && tokens[0] != "create"
        acting = tokens.each_cons(2).find { |name, open| open == "(" && Functions::ACTING[@lexer.unquoted(name)] }
        return session("it calls #{acting[0]}()") if acting && !routine?(tokens)
        if tokens[0] == "create" && tokens.include?("select") && !routine?(tokens)
          reason = scanner(tokens.drop(tokens.index("select"))).unsure
          return session(reason) if reason
        end
        Classification.new(kind: :definition, reason: tokens[0].upcase)
      end

      def replaces_database?(tokens)
        (tokens[0] == "drop" || tokens[2] == "replace") && tokens.first(4).intersect?(%w[database schema])
      end

      # What its body does is not done now.
      def routine?(tokens)
        words = tokens.first(12).take_while { |token| token != "table" }
        words.any? { |token| %w[function procedure trigger event view].include?(token) }
      end

      def command(first, rest)
        case first
        when "begin" then transaction(:begin, "BEGIN", rest)
        when "start" then (rest[0] == "transaction") ? transaction(:begin, "START", []) : session("START")
        when "commit" then transaction(:commit, "COMMIT", rest)
        when "rollback" then rest.include?("to") ? savepoint : transaction(:rollback, "ROLLBACK", rest)
        when "savepoint" then savepoint
        when "release" then (rest[0] == "savepoint") ? savepoint : session("RELEASE")
        when "set" then set(rest)
        when "show" then show(rest)
        else session(first.to_s.upcase)
        end
      end

      def savepoint = Classification.new(kind: :savepoint, reason: "a savepoint")

      def transaction(kind, name, rest)
        return session("#{name} #{rest.join(" ").upcase}") unless TRANSACTIONS[rest]
        Classification.new(kind:, reason: (kind == :begin) ? "a transaction" : name)
      end

      def set(rest)
        return Classification.new(kind: :isolation, reason: "SET TRANSACTION") if rest[0] == "transaction"
        Classification.new(kind: :set, reason: "SET")
      end

      def show(rest)
        rest = rest.drop_while { |word| SHOW_MODIFIERS.include?(word) }
        what = rest[0].to_s
        if what == "warnings" || what == "errors" || what == "count"
          return Classification.new(kind: :residue, reason: "SHOW WARNINGS")
        end
        SHOWN[what] ? query(["show", *rest], :read) : session("SHOW #{what.upcase}")
      end

      def session(reason) = Classification.new(kind: :session, reason:)
    end
  end
end
