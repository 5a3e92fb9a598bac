# frozen_string_literal: true

require_relative "watch"

module NeverBlock
  module ActionCaching
    # Tells the {Watch} of signed and encrypted cookies: prepended to Rails' jars of these. Without a watch it leaves a
    # note for one that may come: middleware may have read the user's cookie, and kept the user.
    # @api private
    module SignedCookieReads
      # @return [Object, nil] as in Rails
      def [](name)
        watch = Watch.current
        return watch.cookies_of_user { super } if watch
        super.tap { |value| request.set_header(Watch::SIGNED, true) if value }
      end
    end
  end
end
