# frozen_string_literal: true

require "sequel/adapters/trilogy"
require "neverblock/mysql"
require "neverblock/mysql/databases"
require "neverblock/mysql/sequel_database"
require "neverblock/mysql/sequel_pools"

module Sequel
  # `Sequel.connect("neverblock-trilogy://…")`: Sequel's own adapter for MySQL and MariaDB by the gem trilogy, whose
  # statements share a few real connections (`connections:`) with those of all other fibers.
  #
  #   DB = Sequel.connect("neverblock-trilogy://localhost/shop?connections=12")
  #   DB = Sequel.connect(adapter: "neverblock_trilogy", database: "shop", connections: 12)
  module NeverBlockTrilogy
    # Fibers must not use each other's transactions.
    Sequel.extension(:fiber_concurrency)

    # Its scheme is :trilogy, since extensions compare that.
    class Database < Sequel::Trilogy::Database
      include NeverBlock::MySQL::SequelDatabase

      %i[neverblock_trilogy neverblock-trilogy].each { |scheme| set_adapter_scheme(scheme) }

      # @return [Symbol]
      def self.adapter_scheme = :trilogy

      private

      def real_client(options) = ::Trilogy.new(options)
    end
  end
end
