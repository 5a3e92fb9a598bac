# frozen_string_literal: true

# For ros-apartment, which requires a file by the name of the adapter, and calls a method of that name.
#
#   Apartment::Tenant.switch("shop_7") { Order.count }        # has a real connection for itself, until its end
require "apartment/adapters/postgresql_adapter"

module Apartment
  module Tenant # :nodoc:
    def self.neverblock_postgresql_adapter(config) = postgresql_adapter(config)
  end
end
