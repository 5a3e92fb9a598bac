# frozen_string_literal: true

require_relative "lexer"

module NeverBlock
  class Postgres
    # Tells whether a statement may have changed a definition (of a table, a view, a function …), by its text and by the
    # server's command tag. What is not known to change none may have changed one.
    #
    #   Alteration.by?("create view v as select 1", "CREATE VIEW")                # => true
    #   Alteration.by?("create materialized view m as select 1", "SELECT 1")      # => true
    #   Alteration.by?("select 1", "SELECT 1")                                    # => false
    #
    # A function of the user's that changes one is not seen.
    # @api private
    module Alteration
      # Command tags of other statements: those without numbers, and those with. (COMMIT PREPARED is none of them: its
      # transaction may have had definitions.)
      HARMLESS = [
        "", "BEGIN", "START TRANSACTION", "COMMIT", "ROLLBACK", "PREPARE TRANSACTION", "ROLLBACK PREPARED", "SAVEPOINT",
        "RELEASE", "DECLARE CURSOR", "CLOSE CURSOR", "CLOSE CURSOR ALL", "PREPARE", "DEALLOCATE", "DEALLOCATE ALL",
        "EXPLAIN", "SET", "SET CONSTRAINTS", "RESET", "SHOW", "DISCARD", "DISCARD ALL", "DISCARD PLANS",
        "DISCARD SEQUENCES", "DISCARD TEMP", "LISTEN", "UNLISTEN", "NOTIFY", "LOCK TABLE", "TRUNCATE TABLE", "VACUUM",
        "ANALYZE", "CHECKPOINT", "CLUSTER", "REINDEX", "REFRESH MATERIALIZED VIEW", "COMMENT", "GRANT", "GRANT ROLE",
        "REVOKE", "REVOKE ROLE", "LOAD"
      ].to_h { |tag| [tag, true] }
      COUNTING = /\A(?:SELECT|INSERT|UPDATE|DELETE|MERGE|COPY|FETCH|MOVE)\b/
      # CREATE TABLE AS, CREATE MATERIALIZED VIEW and SELECT INTO have the tag of their query, and EXPLAIN has its own.
      OF_A_QUERY = %w[SELECT EXPLAIN].freeze
      MAKING = /\bcreate\b|(?<!insert\s)(?<!merge\s)\binto\b/i
      # Definitions that other sessions never see.
      TEMPORARY = /\A\s*create\s+(?:or\s+replace\s+)?(?:(?:local|global)\s+)?temp/i
      # For texts of several statements: the server's last command tag tells only of the last one.
      AMONG_OTHERS = /\b(?:alter|call|create|do|drop|execute|import|prepared)\b|\bselect\b[^;]*\binto\b/i
      private_constant(*constants(false))

      class << self
        # @param sql [String] one statement
        # @param tag [String] the server's command tag
        # @return [Boolean]
        def by?(sql, tag)
          return true unless HARMLESS[tag] || COUNTING.match?(tag)
          return false unless tag.start_with?(*OF_A_QUERY)
          shape = SqlShape.of(sql, :postgres, true) # long literals are not read
          MAKING.match?(shape || sql.b) && makes?(shape || sql)
        end

        # @param sql [String] one statement that has changed a definition
        # @return [Boolean] whether other sessions may see that
        def lasting?(sql) = !TEMPORARY.match?(sql.b) # texts may be of any bytes

        # @param sql [String] several statements
        # @return [Boolean] whether one of them may change a definition that other sessions see
        def within?(sql) = AMONG_OTHERS.match?(sql.b)

        private

        # INTO is a key word in INSERT and MERGE too.
        def makes?(sql)
          tokens = Lexer.tokens(sql)
          return true if tokens.include?("create")
          tokens.each_cons(2).any? { |before, word| word == "into" && before != "insert" && before != "merge" }
        rescue Lexer::Unreadable
          true
        end
      end
    end
  end
end
