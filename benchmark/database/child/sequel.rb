# frozen_string_literal: true

# Sequel: `neverblock-postgres`, or its own adapter on its own pool. Every answer is checked.
#
#   layer = Measured::SequelLayer.open({port: 6000, dbname: "bench"}, own: false, connections: 8, fibers: true)
#   layer.find(17)
require "sequel"
require_relative "check"

module Measured
  module SequelLayer
    extend Check

    PATIENCE = 60 # seconds that a checkout may wait: a thousand queue for a pool of 8
    SQL = "select 1 as one"

    # @param place [Hash{Symbol=>Object}] for PG.connect
    # @param own [Boolean] whether it is ours
    # @param connections [Integer]
    # @param fibers [Boolean] whether a connection belongs to a fiber; otherwise to a thread
    def self.open(place, own:, connections:, fibers:)
      Sequel.extension :fiber_concurrency if fibers
      options = {**place.slice(:host, :port, :user, :sslmode), database: place[:dbname], pool_timeout: PATIENCE}
      @database = own ? Sequel.connect(adapter: "neverblock-postgres", connections:, **options) : Sequel.connect(adapter: "postgres", max_connections: connections, **options)
      @item = Class.new(Sequel::Model(@database[:items]))
      self
    end

    def self.select_1 = same(@database.fetch(SQL).first[:one], 1)

    def self.find(id) = same(@item[id].id, id)

    # begin, select, update, commit.
    def self.transaction(id)
      @database.transaction do
        item = @item[id]
        same(item.id, id)
        item.update(balance: item.balance + 1)
      end
    end

    def self.slow(sql) = @database.fetch(sql).all

    def self.close = @database.disconnect
  end
end
