# frozen_string_literal: true

# Active Record: `adapter: neverblock_postgresql`, `adapter: postgresql` on a pool, or the adapter that the place names. Every answer is
# compared with the request.
#
#   layer = Measured::ActiveRecordLayer.open({port: 6000, dbname: "bench"}, own: true, connections: 8, fibers: true)
#   layer.find(17)
require "active_record"
require_relative "check"

module Measured
  module ActiveRecordLayer
    extend Check

    PATIENCE = 60 # seconds that a checkout may wait: a thousand queue for a pool of 8

    # @param place [Hash{Symbol=>Object}] for PG.connect, or with the name of another `adapter`
    # @param own [Boolean] whether it is ours
    # @param connections [Integer]
    # @param fibers [Boolean] whether a connection belongs to a fiber; otherwise to a thread
    def self.open(place, own:, connections:, fibers:)
      ActiveSupport::IsolatedExecutionState.isolation_level = :fiber if fibers
      require "neverblock/active_record" if own
      bounds = own ? {connections:} : {pool: connections}
      ActiveRecord::Base.establish_connection(adapter: own ? "neverblock_postgresql" : "postgresql", **place.except(:dbname, :user),
        database: place[:dbname], username: place[:user], checkout_timeout: PATIENCE, **bounds)
      require_relative "item"
      Item.load_schema
      self
    end

    def self.select_1 = same(Item.with_connection { |connection| connection.select_value("select 1") }, 1)

    def self.find(id) = same(Item.find(id).id, id)

    # begin, select, update, commit.
    def self.transaction(id)
      Item.transaction do
        item = Item.find(id)
        same(item.id, id)
        item.update!(balance: item.balance + 1)
      end
    end

    # Three statements between begin and commit.
    def self.transaction_of_three(id)
      Item.transaction do
        transaction(id)
        find(id)
      end
    end

    # @return [void]
    def self.relation(first, count)
      items = Item.where(id: first..).order(:id).limit(count).to_a
      same([items.first.id, items.size], [first, count])
    end

    def self.slow(sql) = Item.with_connection { |connection| connection.select_all(sql) }

    def self.close = ActiveRecord::Base.connection_handler.clear_all_connections!
  end
end
