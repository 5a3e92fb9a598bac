# frozen_string_literal: true

module NeverBlock
  class Postgres
    class VirtualConnection < PG::Connection
      # Blocks whose statements have a lease of their own, which ends with the block.
      #
      #   connection.without_multiplexing { connection.exec("select from_partner()") }
      #   connection.aside { connection.exec("select 1") }
      # @api private
      module Unshared
        WITHOUT_MULTIPLEXING = "without_multiplexing"
        private_constant :WITHOUT_MULTIPLEXING

        # Runs the block's statements on a lease, whose connection is reset afterwards. A lease that exists already, for
        # a transaction or session state, goes on until its own end.
        # @return [Object] the block's value
        def without_multiplexing
          return yield if @unshared || changed? || !in_loop?
          begin
            @unshared = WITHOUT_MULTIPLEXING
            @lease&.leave_state(WITHOUT_MULTIPLEXING)
            yield
          ensure
            @unshared = nil
            end_unshared
          end
        end

        # @return [Boolean] whether it is in a block of {#without_multiplexing}
        def without_multiplexing? = !@unshared.nil?
        alias_method :alone?, :without_multiplexing? # its old name

        # Runs the block's reads without a wait for the leases of others, for a caller with a lock of Ruby's for which
        # those may wait. In a loop the reads share; outside of loops they have the connection that is left to share.
        # @return [Object] the block's value
        def aside
          return yield if @lease || in_loop?
          begin
            @urgent = true
            yield
          ensure
            @urgent = false
            end_unshared unless changed?
          end
        end

        private

        # Ends the block's lease, without a line in the log.
        def end_unshared
          return if @lease.nil? || @opening || transaction_status != PG::PQTRANS_IDLE
          lease, @lease = @lease, nil
          lease.give_back
        end
      end
    end
  end
end
