# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Extensions whose functions leave no session state, so that shared statements may reach their operators, casts and
    # types. Functions of other extensions are treated like a user's.
    #
    #   Extensions::LISTED["citext"]   # => the reason
    #   Extensions::KEEPING            # => ["pg_trgm.set_limit", …]: they leave session state
    #
    # Not listed are, for example, dblink and postgres_fdw, which keep connections, or tablefunc, which runs SQL texts.
    # @api private
    module Extensions
      type = "a type with its operators, in C or SQL, without variables of a session"
      index = "support functions of indexes, without variables of a session"
      text = "functions of text; dictionaries are caches"

      # The reason by the extension's name.
      LISTED = {
        "btree_gin" => index, "btree_gist" => index,
        "citext" => type, "cube" => type, "earthdistance" => type, "hstore" => type, "intarray" => type, "isn" => type,
        "ltree" => type, "seg" => type,
        "fuzzystrmatch" => text, "unaccent" => text,
        "pg_trgm" => "functions of text; its limits are settings, which a SET changes",
        "pgcrypto" => "functions of their arguments, and chance", "uuid-ossp" => "chance, and the clock",
        "postgis" => "types with their operators; what it remembers of projections is a cache",
        "vector" => "a type with its operators and indexes; its limits are settings, which a SET changes"
      }.freeze

      # Functions of listed extensions that leave session state: isn_weak(boolean), say, sets a session variable.
      KEEPING = %w[isn.isn_weak pg_trgm.set_limit].freeze
    end
  end
end
