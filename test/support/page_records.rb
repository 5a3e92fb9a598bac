# frozen_string_literal: true

require "neverblock/pages"

module NeverBlockTest
  # Active Record on a SQLite of its own, in memory, for tests of pages.
  #
  #   reason = PageRecords.missing and skip reason
  #   PageRecords.event.create!(title: "a", created_at: Time.now)
  module PageRecords
    class << self
      # @return [String, nil] why it can't be used
      def missing
        require "active_record"
        require "sqlite3"
        nil
      rescue LoadError => error
        "Active Record and SQLite are not among the gems here (#{error.message})"
      end

      # @return [Class] a model with an empty table
      def event
        @event ||= define
        @event.delete_all
        @event
      end

      # @return [Array<String>] statements of the block
      def statements
        found = []
        subscriber = ActiveSupport::Notifications.subscribe("sql.active_record") do |event|
          found << event.payload[:sql] unless event.payload[:name] == "SCHEMA"
        end
        yield
        found
      ensure
        ActiveSupport::Notifications.unsubscribe(subscriber)
      end

      private

      def define
        base = Class.new(ActiveRecord::Base) do
          self.abstract_class = true
          def self.name = "NeverBlockTest::PageRecords::Base"
        end
        base.establish_connection(adapter: "sqlite3", database: ":memory:", pool: 1)
        base.with_connection do |connection|
          connection.create_table(:events) do |table|
            table.string :title, null: false, default: ""
            table.integer :level, null: false, default: 0
            table.datetime :created_at, null: false
            table.datetime :closed_at
            table.date :day, null: false, default: "2026-01-01"
            table.decimal :price, null: false, default: 0, precision: 10, scale: 2
            table.boolean :pinned, null: false, default: false
            table.float :heat, null: false, default: 0
            table.string :notes, null: false, default: ""
            table.index [:created_at, :id]
          end
        end
        Class.new(base) do
          self.table_name = "events"
          def self.name = "NeverBlockTest::PageRecords::Event"
          enum :level, {low: 0, high: 1}
          serialize :notes, coder: JSON
          alias_attribute :happened_at, :created_at
        end
      end
    end
  end
end
