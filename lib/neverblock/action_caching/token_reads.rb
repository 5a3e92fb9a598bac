# frozen_string_literal: true

require_relative "watch"

module NeverBlock
  module ActionCaching
    # Tells the {Watch} of authenticity tokens, those of single forms too: prepended to Rails' protection from forgery.
    # @api private
    module TokenReads
      private

      def form_authenticity_token(...)
        watch = Watch.current
        watch ? watch.only_once(:token) { super } : super
      end

      def masked_authenticity_token(...)
        watch = Watch.current
        watch ? watch.only_once(:token) { super } : super
      end
    end
  end
end
