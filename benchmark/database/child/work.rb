# frozen_string_literal: true

# The repeated operations.
#
#   work = Measured::Work.new(layer, "slow")
#   work.call(99)       # => :slow, one in a hundred
#   work.call(100)      # => :fast
module Measured
  class Work
    IDS = 10_000 # of rows there are
    TRANSACTIONS = 10 # one in so many
    SLOW = 100
    RELATION = 20 # rows

    # @return [String] a statement that takes 50 ms of waiting. It looks as harmless as others: nothing but its time tells.
    def self.slow(number = nil) = number ? "select slow.*, #{number} as number from slow" : "select * from slow"

    # @param layer [Object] that responds to `select_1`, `find`, `transaction` and `slow`, or to the name's own methods
    # @param name [String]
    def initialize(layer, name)
      @layer = layer
      @name = name.to_sym
    end

    # @param number [Integer] how many went before it
    # @return [Symbol] the operation
    def call(number) = public_send(@name, number)

    def select_1(_number)
      @layer.select_1
      :fast
    end

    def find(_number)
      @layer.find(id)
      :fast
    end

    def transactions(number)
      return find(number) unless number % TRANSACTIONS == TRANSACTIONS - 1
      @layer.transaction(id)
      :transaction
    end

    def slow(number)
      return find(number) unless number % SLOW == SLOW - 1
      @layer.slow(Work.slow)
      :slow
    end

    def exec(_number) = @layer.exec

    def transaction_of_three(_number) = @layer.transaction_of_three(id)

    def relation(_number) = @layer.relation(1 + rand(IDS - RELATION), RELATION)

    private

    def id = 1 + rand(IDS)
  end
end
