# frozen_string_literal: true

require_relative "watch"

module NeverBlock
  module ActionCaching
    # Tells the {Watch} of plain cookies: prepended to Rails' cookie jar.
    # @api private
    module CookieReads
      # @return [String, nil] as in Rails
      def [](name)
        watch = Watch.current
        watch ? watch.cookie(name) { super } : super
      end

      # @return [Object] as in Rails
      def fetch(name, ...)
        tell(name)
        super
      end

      # @return [Boolean] as in Rails
      def key?(name)
        tell(name)
        super
      end

      # @return [Boolean] as in Rails
      def has_key?(name)
        tell(name)
        super
      end

      # @return [Object] as in Rails
      def each(...)
        watch = Watch.current
        watch ? watch.cookies_of_user(any: !@cookies.empty?) { super } : super # the block may be left by break
      end

      # @return [Object] as in Rails
      def []=(name, options)
        Watch.current&.set_cookie(name, (Hash === options) ? options[:value] || options["value"] : options)
        super
      end

      # @return [Object] as in Rails
      def delete(name, ...)
        Watch.current&.set_cookie(name, nil)
        super
      end

      private

      def tell(name) = Watch.current&.cookie(name) { Watch.quietly { self[name] } }
    end
  end
end
