# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Extensions whose functions leave nothing in their session: their operators, casts and types may be reached by a statement that
    # shares a connection. What is not listed is taken for a function that may do anything, as a user's own are.
    #
    #   Extensions::LISTED["citext"]   # => why
    #   Extensions::KEEPING            # => ["pg_trgm.set_limit", …]: functions of listed ones that leave something
    #
    # Not listed, among others: dblink and postgres_fdw keep connections, tablefunc runs SQL that it is given as text.
    # @api private
    module Extensions
      type = "a type with its operators, in C or SQL, without variables of a session"
      index = "support functions of indexes, without variables of a session"
      text = "functions of text; dictionaries are caches"

      # By name: why it may be.
      LISTED = {
        "btree_gin" => index, "btree_gist" => index,
        "citext" => type, "cube" => type, "earthdistance" => type, "hstore" => type, "intarray" => type, "isn" => type, "ltree" => type, "seg" => type,
        "fuzzystrmatch" => text, "unaccent" => text,
        "pg_trgm" => "functions of text; its limits are settings, which a SET changes",
        "pgcrypto" => "functions of their arguments, and chance", "uuid-ossp" => "chance, and the clock",
        "postgis" => "types with their operators; what it remembers of projections is a cache",
        "vector" => "a type with its operators and indexes; its limits are settings, which a SET changes"
      }.freeze

      # Functions of those that leave something all the same: isn_weak(boolean) is a variable of the session.
      KEEPING = %w[isn.isn_weak pg_trgm.set_limit].freeze
    end
  end
end
