# frozen_string_literal: true

require_relative "watch"

module NeverBlock
  module ActionCaching
    # Tells the {Watch} of the flash: prepended to Rails' methods for it.
    # @api private
    module FlashReads
      # @return [ActionDispatch::Flash::FlashHash] as in Rails
      def flash
        watch = Watch.current
        watch ? watch.flash { super } : super
      end
    end
  end
end
