# frozen_string_literal: true

require_relative "../errors"
require_relative "../sql/classification_cache"
require_relative "lexer"
require_relative "classification"
require_relative "keywords"
require_relative "functions"
require_relative "commands"

module NeverBlock
  class Postgres
    # Classifies a statement by its text alone. When in doubt it says :session, which needs a lease.
    #
    #   classifier = Classifier.new(shareable_functions: ["shop.price"], server_version: 17)
    #   classifier.call("SELECT lower(name), shop.price(id) FROM items").kind   # => :read
    #   classifier.call("SELECT set_config('app.tenant', '7', false)").reason
    #   # => "it calls set_config(), which leaves or reads session state"
    #
    # It relies on {SafetyChecks}: standard_conforming_strings is on, and no schema comes before pg_catalog in the
    # search_path. Functions that the text does not name (called by views, triggers, defaults, policies, casts,
    # user-defined operators, overloads of built-in functions) are looked up in the catalogue: {Reach}.
    class Classifier
      QUERIES = %w[select values table with insert update delete merge].to_h { |word| [word, true] }.freeze
      # Kinds that depend on words alone, not on literals such as a setting's name.
      BY_SHAPE = lambda do |found|
        (found.kind == :read || found.kind == :write) && !(found.name || found.setting || found.currval)
      end
      private_constant :QUERIES, :BY_SHAPE

      # @param shareable_functions [Array<String>] names, as in SQL, of functions that leave no session state; a name
      #   with a schema applies to calls with that schema
      # @param server_version [Integer] the server's major version, or PG::Connection#server_version. Built-in functions
      #   of later versions count as the user's
      # @raise [ConfigurationError] if one is not the name of a function
      def initialize(shareable_functions: [], server_version: 14)
        @own = Array(shareable_functions).to_h { |name| [key(name), :read] }
        self.server_version = server_version
      end

      # @return [Array<String>] the shareable functions: "price", or "shop\0price" with a schema
      def shareable = @own.keys

      # @param number [Integer] as for {#initialize}
      def server_version=(number)
        version = (number > 999) ? number / 10_000 : number
        return if version == @version
        @version = version
        @allowed = @own.merge(
          Keywords.listed(version).transform_values { :syntax }, Functions.listed(version).transform_values { :read },
          Functions::WRITING.transform_values { :write }, Functions::TRANSACTIONAL.transform_values { :transactional },
          Functions::LOOKING.transform_values { :looking },
          @own.slice(*Functions::WRITING.keys, *Functions::LOOKING.keys)
        ).freeze
        @cache = Sql::ClassificationCache.new(:postgres, by_shape: BY_SHAPE) { |sql| classify(sql) }
      end

      # @param sql [String]
      # @return [Classification] frozen
      def call(sql) = @cache.call(sql)

      private

      def classify(sql)
        raise TypeError, "a statement is a String, not #{sql.inspect}" unless sql.is_a?(String)
        tokens = Lexer.tokens(sql)
        tokens.pop while tokens[-1] == ";"
        tokens.shift while tokens[0] == ";"
        return Classification.new(kind: :empty) if tokens.empty?
        found = judge(tokens)
        # A statement that calls it is neither a read nor a write.
        currval = found[:kind] != :read && found[:kind] != :write && StatementScanner.currval?(tokens)
        Classification.new(**found, currval:, fingerprint: -Lexer.fingerprint(tokens))
      rescue Lexer::Unreadable => error
        Classification.new(kind: :session, reason: "it can't be read: #{error.message}")
      end

      def judge(tokens)
        return {kind: :session, several: true, reason: "several statements"} if tokens.include?(";")
        start = 0
        start = after_explain(tokens) if tokens[0] == "explain"
        first = start
        first += 1 while tokens[first] == "("
        return query(tokens, start) if QUERIES[tokens[first]]
        return Commands.judge(tokens, @allowed) if start.zero?
        {kind: :session, reason: "EXPLAIN of #{tokens[first]}"}
      end

      # EXPLAIN may have options: words, or in parentheses, where a query could be too.
      def after_explain(tokens)
        at = 1
        at += 1 while %w[analyze analyse verbose].include?(tokens[at])
        return at if at > 1 || tokens[1] != "("
        first = 1
        first += 1 while tokens[first] == "("
        QUERIES[tokens[first]] ? 1 : (tokens.index(")") || 0) + 1
      end

      def query(tokens, start)
        scanner = StatementScanner.new(tokens, @allowed, start:)
        return {kind: :session, reason: scanner.unsure, setting: scanner.session_setting} if scanner.unsure
        return {kind: :looking, reason: scanner.looks} if scanner.looks
        return {kind: :write, reason: scanner.writes, name: scanner.setting} if scanner.writes
        return {kind: :read} unless scanner.transactional
        {kind: :transactional, reason: scanner.transactional, name: scanner.setting}
      end

      def key(name)
        tokens = begin
          Lexer.tokens(name)
        rescue Lexer::Unreadable, NoMethodError
          []
        end
        parts = [tokens[0], *tokens[2]]
        valid = [1, 3].include?(tokens.size) && [nil, "."].include?(tokens[1]) &&
          parts.all? { |part| part.match?(/\A["a-z_\u0080-\u{10ffff}]/) }
        parts = parts.map { |part| part.delete_prefix('"').delete_suffix('"') } if valid
        if !valid || Functions::KEEPS_STATE.match?(parts[-1])
          why = "is not the name of a function: write it as in SQL, such as \"price\" or \"shop.price\""
          why = "is a function that leaves or reads session state: leave it out" if valid
          raise ConfigurationError, "shareable_functions: #{name.inspect} #{why}"
        end
        parts.shift if parts[0] == "pg_catalog" && parts.size == 2
        parts.join("\0")
      end
    end
  end
end
