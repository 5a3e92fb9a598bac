# frozen_string_literal: true

require_relative "release"
NeverBlock::ActiveRecordRelease.check(adapter: "neverblock_mysql", instead: "trilogy")
require "active_record/connection_adapters/trilogy_adapter"
require_relative "shares_mysql_connections"

module NeverBlock
  # Makes statements of Active Record's adapter for trilogy share a few real connections (`connections:`) with those of
  # other requests. `adapter: neverblock_mysql` is Rails' own adapter with this module.
  module SharesTrilogyConnections
    include SharesMySQLConnections

    # @param adapter [Class]
    # @raise [ConfigurationError] if it is not a subclass of Rails' adapter for trilogy
    def self.included(adapter)
      SharesMySQLConnections.check(self, adapter, ActiveRecord::ConnectionAdapters::TrilogyAdapter)
      super
    end
  end
end
