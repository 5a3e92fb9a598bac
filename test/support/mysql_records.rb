# frozen_string_literal: true

require_relative "fiber_records"
require_relative "mysql"

module NeverBlockTest
  # For tests of Active Record without Rails, with our adapter for MySQL: a model on a table that is new and empty.
  #
  #   class SomethingTest < Minitest::Test
  #     include NeverBlockTest::MySQLRecords
  #     def test_it = with_items(connections: 2) { |items| items.create!(name: "one") }
  #   end
  module MySQLRecords
    include MySQL
    include FiberRecords

    def teardown
      ActiveRecord::Base.remove_connection if defined?(ActiveRecord)
      super
    end

    # @return [String] of tests that name none
    def default_adapter = "neverblock_mysql"

    # @yieldparam items [Class] the model
    # The wait for a connection is long by itself, since a busy machine takes its time.
    def with_items(connections: 4, adapter: default_adapter, loop: true, checkout_timeout: 60, **options)
      ActiveRecord::Base.establish_connection(adapter:, connections:, checkout_timeout:, **MySQL.server.options, **options)
      loop ? in_loop { yield items } : yield(items)
    end

    # @return [NeverBlock::MySQL] of the model's adapters
    def shared = ActiveRecord::Base.with_connection { |connection| connection.select_value("select 1") && connection.multiplexed }

    private

    def items
      ActiveRecord::Schema.verbose = false
      ActiveRecord::Schema.define do
        create_table :items, force: true do |t|
          t.string :name, null: false
          t.decimal :price, precision: 10, scale: 2
          t.boolean :sold, null: false, default: false
          t.datetime :seen_at
        end
      end
      Class.new(ActiveRecord::Base) do
        self.table_name = "items"
        def self.name = "Item"
        reset_column_information
      end
    end
  end
end
