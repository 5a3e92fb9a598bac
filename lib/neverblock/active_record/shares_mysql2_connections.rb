# frozen_string_literal: true

require_relative "release"
NeverBlock::ActiveRecordRelease.check(adapter: "neverblock_mysql2", instead: "mysql2")
require "active_record/connection_adapters/mysql2_adapter"
require_relative "shares_mysql_connections"
require_relative "../mysql/mysql2"

module NeverBlock
  # Makes statements of Active Record's adapter for mysql2 share a few real connections (`connections:`) with those of
  # other requests. `adapter: neverblock_mysql2` is Rails' own adapter with this module.
  module SharesMysql2Connections
    include SharesMySQLConnections

    # @param adapter [Class]
    # @raise [ConfigurationError] if it is not a subclass of Rails' adapter for mysql2
    def self.included(adapter)
      SharesMySQLConnections.check(self, adapter, ActiveRecord::ConnectionAdapters::Mysql2Adapter)
      super
    end

    # @raise [ConfigurationError] with `prepared_statements: true`
    def initialize(...)
      super
      return unless @config[:prepared_statements]
      raise ConfigurationError, "prepared_statements: true: statements that are prepared on the server belong to one " \
        "connection, and those of adapter: neverblock_mysql2 are shared. Leave it out, or use adapter: mysql2"
    end

    private

    def virtual_connection = MySQL::Mysql2VirtualConnection.new(super, @config)

    def real_client(kind, config) = MySQL::Mysql2Client.new(config) { |options| kind.new_client(options) }
  end
end
