# frozen_string_literal: true

# For ros-apartment with `adapter: neverblock_postgis`, as neverblock_postgresql_adapter.rb is for the other.
require "apartment/adapters/neverblock_postgresql_adapter"

module Apartment
  module Tenant # :nodoc:
    def self.neverblock_postgis_adapter(config) = postgresql_adapter(config)
  end
end
