# frozen_string_literal: true

module NeverBlockTest
  # What a block raises, for tests that compare it or look at it.
  #
  #   assert_kind_of NeverBlock::Cancelled, raised { task.value }
  module Raised
    # @return [Exception, nil] what the block raised, of any class
    def raised
      yield
      nil
    rescue Exception => error # standard:disable Lint/RescueException -- the exception is what the test looks at
      error
    end
  end
end
