# frozen_string_literal: true

# Another name of it: a URL's scheme has no underscores.
require "sequel/adapters/neverblock_mysql2"
