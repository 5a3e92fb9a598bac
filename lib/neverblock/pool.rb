# frozen_string_literal: true

require_relative "fibered_connection_pool"

module NeverBlock
  # The pools' names of 2008.
  #
  #   require "neverblock-pg"
  #   NB::Pool::FiberPool.new(24)
  #   NB::Pool::FiberedConnectionPool.new(size: 10) { PG.connect }
  module Pool
    # @see NeverBlock::FiberPool
    FiberPool = NeverBlock::FiberPool
    # @see NeverBlock::FiberedConnectionPool
    FiberedConnectionPool = NeverBlock::FiberedConnectionPool
  end
end
