# frozen_string_literal: true

require "neverblock/active_record/shares_mysql2_connections"

module ActiveRecord
  module ConnectionAdapters
    # `adapter: neverblock_mysql2` in config/database.yml: Rails' own adapter for MySQL and MariaDB by the gem mysql2,
    # whose statements share a few real connections. All that it has beyond Rails' is
    # {NeverBlock::SharesMysql2Connections}.
    #
    # It calls itself "Mysql2", as libraries compare that.
    class NeverBlockMysql2Adapter < Mysql2Adapter
      include NeverBlock::SharesMysql2Connections
    end
  end
end
