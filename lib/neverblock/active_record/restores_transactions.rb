# frozen_string_literal: true

module NeverBlock
  # For adapters of Active Record: a reconnect that fails leaves the transactions for the next attempt.
  #
  #   module SharesConnections
  #     include RestoresTransactions
  #   end
  # @api private
  module RestoresTransactions
    # Called by Active Record when it reconnects. If that fails, Active Record forgets its transactions, and the next
    # attempt would go on without them. So they are kept.
    def reset_transaction(restore: false) # :nodoc:
      before = @transaction_manager
      value = super
      whole = true
      value
    ensure
      @transaction_manager = before if restore && !whole
    end
  end
  private_constant :RestoresTransactions
end
