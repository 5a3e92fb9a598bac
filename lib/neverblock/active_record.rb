# frozen_string_literal: true

require "active_record"
require "active_record/database_configurations"
require_relative "active_record/adapters"
require_relative "patches/rails/load_async"
require_relative "patches/rails/pool_size"
require_relative "patches/rails/type_names"
require_relative "patches/rails/pool_stat"
require_relative "postgres/pipeline"
require_relative "postgres/pipeline/records"

# `adapter: neverblock_postgresql`, `neverblock_postgis`, `neverblock_mysql`, `neverblock_trilogy` and
# `neverblock_mysql2`, for Active Record. With Rails the Railtie loads it.
#
#   require "neverblock/active_record"
#   ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", database: "shop", connections: 12)
NeverBlock::ActiveRecordAdapters.register("neverblock_postgresql",
  "ActiveRecord::ConnectionAdapters::NeverBlockPostgreSQLAdapter",
  "active_record/connection_adapters/neverblock_postgresql_adapter")
NeverBlock::ActiveRecordAdapters.register("neverblock_postgis",
  "ActiveRecord::ConnectionAdapters::NeverBlockPostGISAdapter",
  "active_record/connection_adapters/neverblock_postgis_adapter", types_of: "postgis")
%w[MySQL Trilogy Mysql2].each do |driver|
  name = "neverblock_#{driver.downcase}"
  ActiveRecord::ConnectionAdapters.register(name, "ActiveRecord::ConnectionAdapters::NeverBlock#{driver}Adapter",
    "active_record/connection_adapters/#{name}_adapter")
end
NeverBlock::Patches::Rails::PoolSize.apply
NeverBlock::Patches::Rails::TypeNames.apply
NeverBlock::Postgres::Pipeline.libraries << NeverBlock::Postgres::Pipeline::Records
ActiveSupport.on_load(:active_record) do
  [NeverBlock::Patches::Rails::LoadAsync, NeverBlock::Patches::Rails::PoolStat].each(&:apply)
end
