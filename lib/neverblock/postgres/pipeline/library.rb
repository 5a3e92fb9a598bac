# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Pipeline
      # Interface of a library with state by fiber, or with promises. Its module extends itself with this:
      #
      #   module Datasets
      #     extend Library
      #     def self.held? = DB.in_transaction?
      #   end
      #   Pipeline.libraries << Datasets
      # @api private
      module Library
        # @return [Boolean] whether the calling fiber has a connection to which its statements belong
        def held? = false

        # @return [#call, nil] called in another fiber with a block, which it runs with the present fiber's state
        def carry = nil

        # @return [Object] the value, with the library's promises replaced by their values
        def settle(value) = value

        # @param pipeline [Pipeline] one that has ended
        # @return [void]
        def ended(pipeline) = nil
      end
    end
  end
end
