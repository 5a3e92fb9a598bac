# frozen_string_literal: true

require_relative "settings"
require_relative "statement_scanner"

module NeverBlock
  class Postgres
    # Classifies statements other than queries: transaction control, settings, definitions, session commands.
    #
    #   Commands.judge(Lexer.tokens("CREATE TEMP TABLE t (id int)"), allowed)
    #   # => {kind: :session, reason: "CREATE TEMP"}
    #   Commands.judge(Lexer.tokens("ROLLBACK TO SAVEPOINT s"), allowed)
    #   # => {kind: :transactional, reason: "ROLLBACK TO"}
    module Commands
      # First words of statements that leave no session state, whatever follows.
      WRITES = %w[
        analyse analyze checkpoint cluster comment drop grant import notify reassign refresh reindex revoke truncate
        vacuum
      ].freeze
      TRANSACTIONAL = %w[savepoint release lock].freeze
      CURSORS = %w[fetch move close].freeze
      MODES = %w[work transaction isolation level serializable repeatable read committed uncommitted only write
        deferrable not ,].freeze

      # Words between CREATE or ALTER and one of OBJECTS; and the objects whose definition leaves no session state.
      MODIFIERS = %w[
        or replace global local unlogged recursive unique materialized foreign event constraint trusted procedural user
        text access default large search
      ].freeze
      OBJECTS = %w[
        aggregate cast collation configuration conversion database dictionary domain extension function group index
        language mapping method object operator parser policy privileges procedure publication role routine rule schema
        sequence server statistics subscription system table tablespace template transform trigger type user view
        wrapper data
      ].freeze

      # Objects whose definition evaluates expressions at once.
      EVALUATED = {"table" => :table, "index" => :index, "domain" => :table, "materialized" => :table}.freeze
      private_constant(*constants(false))

      # @param tokens [Array<String>] of one statement
      # @param allowed [Hash{String=>Symbol}] as {StatementScanner} takes it
      # @return [Hash{Symbol=>Object}] the attributes of a {Classification}
      def self.judge(tokens, allowed)
        case first = tokens[0]
        when "begin", "start" then transaction(:begin, tokens)
        when "commit", "end" then finish(:commit, tokens)
        when "rollback", "abort" then finish(:rollback, tokens)
        when *TRANSACTIONAL then {kind: :transactional, reason: first.upcase}
        when "set", "reset" then Settings.read(tokens)
        when "show"
          (tokens.size <= 6 && tokens.none? { |token| token.match?(/['(,]/) }) ? {kind: :read} : unknown(tokens)
        when "prepare" then prepare(tokens)
        when "discard", "execute", "listen", "unlisten", "deallocate" then named(first.to_sym, tokens)
        when "declare" then declare(tokens, allowed)
        when *CURSORS then {kind: :cursor, reason: first.upcase}
        when "copy" then {kind: :copy, reason: "COPY"}
        when "create", "alter" then definition(tokens, allowed)
        when *WRITES then write(tokens)
        when "do" then {kind: :session, reason: "a DO block may do anything"}
        when "call" then {kind: :session, reason: "CALL: a procedure may do anything"}
        else unknown(tokens)
        end
      end

      def self.transaction(kind, tokens)
        words = tokens.drop((tokens[0] == "start") ? 2 : 1)
        return unknown(tokens) if (tokens[0] == "start" && tokens[1] != "transaction") || !(words - MODES).empty?
        {kind:, reason: tokens.first(2).join(" ").upcase}
      end

      def self.finish(kind, tokens)
        words = tokens.drop(1)
        words.shift if %w[work transaction].include?(words[0])
        case words
        in [] | ["and", "no", "chain"] then {kind:, reason: kind.to_s.upcase}
        in ["to", _, *] if kind == :rollback then {kind: :transactional, reason: "ROLLBACK TO"}
        in ["prepared", _] then {kind: :write, reason: "#{kind.to_s.upcase} PREPARED"}
        in ["and", "chain"] then {kind: :transactional, reason: "#{kind.to_s.upcase} AND CHAIN"}
        else unknown(tokens)
        end
      end

      # PREPARE TRANSACTION with a string after it is the first half of a two-phase commit.
      def self.prepare(tokens)
        if tokens[1] == "transaction" && tokens[2]&.match?(/\A[^a-z(]/)
          return {kind: :commit, reason: "PREPARE TRANSACTION"}
        end
        named(:prepare, tokens)
      end

      def self.named(kind, tokens)
        words = tokens.drop(1)
        words.shift if kind == :deallocate && words[0] == "prepare" && words.size > 1
        name = name(words[0])
        return unknown(tokens) if name.nil? || (words.size > 1 && !%i[prepare execute].include?(kind))
        return unknown(tokens) if kind == :deallocate && name == "all" && words[0] != "all"
        name = "temp" if kind == :discard && name == "temporary"
        {kind:, name:, reason: "#{tokens[0].upcase} #{name}"}
      end

      def self.name(token)
        (token && (token == "*" || token.match?(/\A["a-z_\u0080-\u{10ffff}]/))) ? Settings.unquote(token) : nil
      end

      # A cursor's query runs when it is fetched from.
      def self.declare(tokens, allowed)
        query = tokens.index("for") or return unknown(tokens)
        scanner = StatementScanner.new(tokens, allowed, start: query + 1)
        reason = scanner.unsure || scanner.looks
        reason ? {kind: :session, reason:} : {kind: :cursor, name: name(tokens[1]), reason: "DECLARE"}
      end

      def self.definition(tokens, allowed)
        modifiers = tokens.drop(1).take_while { |word| MODIFIERS.include?(word) || %w[temp temporary].include?(word) }
        return {kind: :session, reason: "#{tokens[0].upcase} TEMP"} if modifiers.intersect?(%w[temp temporary])
        object = tokens[modifiers.size + 1]
        object = modifiers.last if modifiers.last == "user" && !OBJECTS.include?(object)
        return unknown(tokens) unless OBJECTS.include?(object)
        if object == "schema" && tokens.count("create") > 1 || object == "table" && tokens.include?("execute")
          return {kind: :session, reason: "#{tokens[0].upcase} #{object.upcase} with other statements in it"}
        end
        kind = EVALUATED[object] ||
          (:table if object == "view" && modifiers.include?("materialized") && tokens[0] == "create")
        return write(tokens) unless kind
        scanner = StatementScanner.new(tokens, allowed, definition: (tokens[0] == "alter") ? :alter : kind)
        reason = scanner.unsure || scanner.looks || scanner.transactional
        reason ? {kind: :session, reason:} : write(tokens)
      end

      def self.write(tokens)
        reason = StatementScanner.session_name(tokens)
        return {kind: :session, reason:} if reason
        {kind: :write, reason: tokens.first(2).join(" ").upcase}
      end

      def self.unknown(tokens)
        {kind: :session, reason: "a statement that is not understood (#{tokens.first(3).join(" ")[0, 80]})"}
      end
      private_class_method :transaction, :finish, :prepare, :named, :name, :declare, :definition, :write, :unknown
    end
  end
end
