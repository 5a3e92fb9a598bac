# frozen_string_literal: true

require "active_record/connection_adapters/postgresql_adapter"

module ActiveRecord
  module ConnectionAdapters
    # `adapter: neverblock_postgresql` in config/database.yml: Rails' own adapter for PostgreSQL, on a pool of its own size
    # (`connections:`). Active Record checks a connection out for each statement and for each transaction, so that requests
    # which wait for something else hold none.
    #
    # It calls itself "PostgreSQL", as libraries compare that.
    class NeverBlockPostgreSQLAdapter < PostgreSQLAdapter
      # Attribute types go by the name in the configuration: those of :postgresql are to be found under ours too.
      # @return [void]
      def self.register_types
        Type.add_modifier({array: true}, OID::Array, adapter: :neverblock_postgresql)
        Type.add_modifier({range: true}, OID::Range, adapter: :neverblock_postgresql)
        TYPES.each { |name, type| Type.register(name, OID.const_get(type), adapter: :neverblock_postgresql) }
      end

      # By their names in models.
      TYPES = {
        bit: :Bit, bit_varying: :BitVarying, binary: :Bytea, cidr: :Cidr, date: :Date, datetime: :DateTime, decimal: :Decimal,
        enum: :Enum, hstore: :Hstore, inet: :Inet, interval: :Interval, jsonb: :Jsonb, money: :Money, point: :Point,
        legacy_point: :LegacyPoint, uuid: :Uuid, vector: :Vector, xml: :Xml
      }.freeze
      register_types
    end
  end
end
