# frozen_string_literal: true

require_relative "database"
require_relative "fiber_records"

module NeverBlockTest
  # For tests of Active Record without Rails, with our adapter: a model on a new and empty table.
  #
  #   class SomethingTest < Minitest::Test
  #     include NeverBlockTest::Records
  #     def test_it = with_items(connections: 2) { |items| items.create!(name: "one") }
  #   end
  module Records
    include Database
    include FiberRecords

    def teardown
      ActiveRecord::Base.remove_connection if defined?(ActiveRecord)
      super
    end

    # @return [Hash{Symbol=>Object}] of database.yml
    def parameters
      server = Database.server
      {host: server.folder, port: server.port, username: server.user, application_name: "nb_#{name[0, 50]}"}
    end

    # @yieldparam items [Class] the model
    # The checkout timeout is long, since the machine may be busy.
    def with_items(connections: 4, loop: true, checkout_timeout: 60, **options)
      ActiveRecord::Base.establish_connection(adapter: "neverblock_postgresql", database: "postgres", connections:, checkout_timeout:, **parameters, **options)
      ActiveRecord::Schema.verbose = false
      work = lambda do
        ActiveRecord::Schema.define do
          create_table :items, force: true do |t|
            t.string :name, null: false
            t.decimal :price
            t.jsonb :data
            t.string :tags, array: true
            t.datetime :seen_at
          end
        end
        items = Class.new(ActiveRecord::Base) do
          self.table_name = "items"
          def self.name = "Item"
        end
        items.reset_column_information
        yield items
      end
      loop ? in_loop { work.call } : work.call
    end
  end
end
