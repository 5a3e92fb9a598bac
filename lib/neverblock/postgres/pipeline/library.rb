# frozen_string_literal: true

module NeverBlock
  class Postgres
    class Pipeline
      # What a library whose state goes by fiber has to say of pipelines. It extends itself with this, and answers what
      # concerns it:
      #
      #   module Datasets
      #     extend Library
      #     def self.held? = DB.in_transaction?
      #   end
      #   Pipeline.libraries << Datasets
      # @api private
      module Library
        # @return [Boolean] whether the calling fiber has a connection for itself, to which its statements belong
        def held? = false

        # @return [#call, nil] called in another fiber with a block, which it runs as if that were the present one
        def carry = nil

        # @return [Object] the value, in which the library's promises have become what they promised
        def settle(value) = value

        # @param pipeline [Pipeline] that is over
        # @return [void]
        def ended(pipeline) = nil
      end
    end
  end
end
