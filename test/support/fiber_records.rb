# frozen_string_literal: true

module NeverBlockTest
  # For tests of Active Record without Rails, in which each fiber has connections of its own. A class includes it after
  # the module of its database, or includes Records, MySQLRecords or ShardedRecords.
  module FiberRecords
    def setup
      super
      skip "activerecord is not among the gems here" unless Gem.loaded_specs.key?("activerecord")
      require "neverblock/active_record"
      ActiveSupport::IsolatedExecutionState.isolation_level = :fiber
    end

    def teardown
      ActiveSupport::IsolatedExecutionState.isolation_level = :fiber if defined?(ActiveSupport::IsolatedExecutionState)
      super
    end

    # Forty fibers create t0 to t39, and in a nested transaction nested0 to nested39. The odd ones are rolled back, and
    # of the nested ones also each fourth.
    # @param items [Class] a model with a name
    def nest_transactions(items)
      NB.concurrently(40.times.to_a, limit: 40) do |n|
        items.transaction do
          items.create!(name: "t#{n}")
          items.transaction(requires_new: true) do
            items.create!(name: "nested#{n}")
            raise ActiveRecord::Rollback if n % 4 == 0
          end
          raise ActiveRecord::Rollback if n.odd?
        end
      end
    end
  end
end
