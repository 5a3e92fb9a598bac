# frozen_string_literal: true

require "neverblock/active_record/shares_connections"

module ActiveRecord
  module ConnectionAdapters
    # `adapter: neverblock_postgresql` in config/database.yml: Rails' own adapter for PostgreSQL, whose statements share
    # a few real connections. All that it has beyond Rails' is {NeverBlock::SharesConnections}.
    #
    # It calls itself "PostgreSQL", as libraries compare that.
    class NeverBlockPostgreSQLAdapter < PostgreSQLAdapter
      include NeverBlock::SharesConnections
    end
  end
end
