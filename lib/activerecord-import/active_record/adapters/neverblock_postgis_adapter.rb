# frozen_string_literal: true

# For activerecord-import with `adapter: neverblock_postgis`, as neverblock_postgresql_adapter.rb is for the other.
require "activerecord-import/active_record/adapters/neverblock_postgresql_adapter"
