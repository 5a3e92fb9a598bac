# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What may have a connection for itself: a {Request}, or the pool, while it makes the connection as it was.
    #
    #   connection.holder                    # => nil: its statements share it
    #   connection.holder&.lease?            # => true: a fiber has it for a transaction, or for what a session keeps
    #   connection.holder = Holder::UPKEEP   # restored or looked at, and then given to others
    #
    # A request is its own holder, so that a statement alone costs no object more than one that shares.
    # @api private
    module Holder
      # @return [Boolean] whether a fiber has it for as long as it likes
      def lease? = false

      # @return [Boolean] whether it ends with the statements that are on the connection
      def alone? = false

      # @return [Fiber, Thread, nil] that waits for it, or has it
      def owner = nil

      # @return [Object, nil] the scheduler of that fiber
      def loop = nil

      # @return [Float, nil] since when it has its connection, on the monotonic clock
      def held_since = nil

      # @return [String, nil] of its statement
      def sql = nil

      # The pool itself: see {Upkeep}.
      class Upkeep
        include Holder

        # @return [String] for messages
        def purpose = "one that is being restored"
      end

      UPKEEP = Upkeep.new.freeze
      private_constant :Upkeep
    end
  end
end
