# frozen_string_literal: true

require "sequel/adapters/mysql2"
require "neverblock/mysql/mysql2"
require "neverblock/mysql/databases"
require "neverblock/mysql/sequel_database"
require "neverblock/mysql/sequel_pools"

module Sequel
  # `Sequel.connect("neverblock-mysql2://…")`: Sequel's own adapter for MySQL and MariaDB by the gem mysql2, whose
  # statements share a few real connections (`connections:`) with those of all other fibers.
  #
  #   DB = Sequel.connect("neverblock-mysql2://localhost/shop?connections=12")
  module NeverBlockMysql2
    # Fibers must not use each other's transactions.
    Sequel.extension(:fiber_concurrency)

    # Its scheme is :mysql2, since extensions compare that.
    class Database < Sequel::Mysql2::Database
      include NeverBlock::MySQL::SequelDatabase

      %i[neverblock_mysql2 neverblock-mysql2].each { |scheme| set_adapter_scheme(scheme) }

      # @return [Symbol]
      def self.adapter_scheme = :mysql2

      private

      def virtual_connection(database)
        NeverBlock::MySQL::Mysql2VirtualConnection.new(super, symbolize_keys: true, cache_rows: false)
      end

      def real_client(options)
        found = options.delete(:found_rows) ? ::Mysql2::Client::FOUND_ROWS : 0
        options = {**options, encoding: options[:encoding] || options[:charset], flags: (options[:flags] || 0) | found}
        NeverBlock::MySQL::Mysql2Client.new(options.except(:user).compact) { |given| ::Mysql2::Client.new(given) }
      end

      # {NeverBlock::MySQL::OutcomeUnknown} and {NeverBlock::MySQL::SessionLost} are the same with each driver.
      def _execute(...)
        super
      rescue NeverBlock::MySQL::OutcomeUnknown, NeverBlock::MySQL::SessionLost => error
        raise Sequel.convert_exception_class(error, Sequel::DatabaseDisconnectError)
      end
    end
  end
end
