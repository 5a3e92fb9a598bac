# frozen_string_literal: true

module NeverBlock
  module Shards
    # Some shards have failed, or have not ended by the deadline. The message names them; `cause` is the first error.
    #
    #   rescue NeverBlock::Shards::Incomplete => error
    #     error.errors   # => {us: #<PG::ConnectionBad: …>}
    class Incomplete < StandardError
      include Error

      # Errors in a message, at most.
      SHOWN = 5
      private_constant :SHOWN

      # @return [Hash{Object=>Exception}] errors by shard
      attr_reader :errors

      # @api private
      # @param method [String] the called method
      # @param errors [Hash{Object=>Exception}]
      # @param count [Integer] the number of shards
      # @yieldparam shard [Object]
      # @yieldreturn [String] the shard's name in the message
      def initialize(method, errors, count)
        @errors = errors
        shown = errors.first(SHOWN).map { |shard, error| "#{yield shard}: #{line(error)}" }
        shown << "and #{errors.size - SHOWN} more" if errors.size > SHOWN
        super("Shards.#{method}: #{errors.size} of #{count} shards failed: #{shown.join("; ")}. " \
          "With partial: true it returns what the others have")
      end

      private

      def line(error) = "#{error.message.lines.first.to_s.strip} (#{error.class})"
    end
  end
end
