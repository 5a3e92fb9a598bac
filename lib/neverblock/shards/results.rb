# frozen_string_literal: true

module NeverBlock
  module Shards
    # The values of {Shards.map} by shard, in the order of the shards.
    #
    #   counts = NeverBlock::Shards.map(timeout: 2, partial: true) { Order.count }
    #   counts           # => {eu: 1204}
    #   counts.errors    # => {us: #<NeverBlock::TimeoutError: the deadline has passed>}
    class Results < Hash
      # @return [Hash{Object=>Exception}] errors by shard; empty without `partial: true`
      attr_reader :errors

      # @api private
      def initialize
        super
        @errors = {}
      end

      # @return [Boolean] whether each shard has a value
      def complete? = @errors.empty?
    end
  end
end
