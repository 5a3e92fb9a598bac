# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Exclusive user of a connection: a {Request}, or {UPKEEP} while the connection is audited or reset.
    #
    #   connection.holder                    # => nil: shared or idle
    #   connection.holder&.lease?            # => true: a fiber has it for a transaction or for session state
    #   connection.holder = Holder::UPKEEP   # it is being audited or reset
    #
    # A request is its own holder, so that a statement alone needs no additional object.
    # @api private
    module Holder
      # @return [Boolean] whether it is a lease, which lasts until the user ends it
      def lease? = false

      # @return [Boolean] whether it is a statement or batch, and ends with it
      def alone? = false

      # @return [Fiber, Thread, nil] the one that waits for it or uses it
      def owner = nil

      # @return [Object, nil] the scheduler of that fiber
      def loop = nil

      # @return [Float, nil] since when it has its connection, on the monotonic clock
      def held_since = nil

      # @return [String, nil] of its present or last statement
      def sql = nil

      # The pool itself: see {Postgres::Upkeep}.
      class Upkeep
        include Holder

        # @return [String] for messages
        def purpose = "one that is being reset"
      end

      UPKEEP = Upkeep.new.freeze
      private_constant :Upkeep
    end
  end
end
