# frozen_string_literal: true

require_relative "fiber_records"

module NeverBlockTest
  # For tests of the shards of `connects_to`: an abstract class without shards yet (@base), and a model of orders
  # (@items). A class includes it after ShardDatabases or MySQLShards, and calls `connects_to`.
  module ShardedRecords
    include FiberRecords

    def self.included(test_class) = test_class.extend(Models)

    # The same for all tests of a class.
    module Models
      # @return [Array<Class>]
      def models
        @models ||= begin
          base = const_set(:ShardRecord, Class.new(ActiveRecord::Base) { self.abstract_class = true })
          [base, const_set(:Order, Class.new(base) { self.table_name = "orders" })]
        end
      end
    end

    def setup
      super
      @base, @items = self.class.models
    end
  end
end
