# frozen_string_literal: true

require "neverblock/active_record/shares_trilogy_connections"

module ActiveRecord
  module ConnectionAdapters
    # `adapter: neverblock_mysql` in config/database.yml: Rails' own adapter for MySQL and MariaDB by the gem trilogy,
    # whose statements share a few real connections. All that it has beyond Rails' is
    # {NeverBlock::SharesTrilogyConnections}.
    #
    # It calls itself "Trilogy", as libraries compare that.
    class NeverBlockMySQLAdapter < TrilogyAdapter
      include NeverBlock::SharesTrilogyConnections
    end
  end
end
