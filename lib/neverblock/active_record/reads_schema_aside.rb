# frozen_string_literal: true

module NeverBlock
  # For adapters of Active Record: reads a model's table, columns and keys outside of a transaction that has not begun
  # on the server yet.
  #
  #   module SharesConnections
  #     include ReadsSchemaAside
  #   end
  #
  # Active Record reads them when a model is first used, and holds a lock that all models share. If the transaction
  # began with this read, the lock's owner would wait for a real connection, while the fibers that have one wait for the
  # lock. So the read is not only outside of the transaction: the raw connection's `aside` does not wait for the others.
  # @api private
  module ReadsSchemaAside
    %i[columns primary_keys indexes data_sources data_source_exists? default_sequence_name].each do |name|
      define_method(name) do |*arguments, **options, &block|
        return super(*arguments, **options, &block) unless waits_to_begin?
        read_aside { super(*arguments, **options, &block) }
      end
    end

    private

    # @return [Boolean] whether a transaction would have to wait for others before it begins on the server
    def waits_to_begin? = held_for.nil?

    # @return [Object] the block's value, as soon as possible
    def without_waiting(&) = @raw_connection.aside(&)

    def read_aside(&)
      verify! unless @raw_connection
      @lock.synchronize do
        transactions = @transaction_manager
        @transaction_manager = ActiveRecord::ConnectionAdapters::TransactionManager.new(self)
        without_waiting(&)
      ensure
        @transaction_manager = transactions
      end
    end
  end
  private_constant :ReadsSchemaAside
end
