# frozen_string_literal: true

require "neverblock/active_record/shares_connections"
require "activerecord-postgis-adapter"
require "active_record/connection_adapters/postgis_adapter"

module ActiveRecord
  module ConnectionAdapters
    # `adapter: neverblock_postgis` in config/database.yml, with the gem activerecord-postgis-adapter: spatial columns
    # and queries, whose statements share a few real connections.
    class NeverBlockPostGISAdapter < PostGISAdapter
      include NeverBlock::SharesConnections
    end
  end
end
