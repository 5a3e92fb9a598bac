# frozen_string_literal: true

# Compares what was answered with what had been asked for, since a wrong answer may be a fast one.
#
#   Measured::Check.same(item.id, 17)
module Measured
  module Check
    module_function

    # @return [void]
    # @raise [RuntimeError] if they differ
    def same(found, wanted)
      raise "#{found} was answered where #{wanted} had been asked for" unless found == wanted
    end
  end
end
