# frozen_string_literal: true

require_relative "watch"

module NeverBlock
  module ActionCaching
    # Tells the {Watch} of headers, addresses and the nonce: prepended to Rails' request.
    # @api private
    module RequestReads
      # @return [Object] as in Rack
      def get_header(name)
        Watch.current&.header(name)
        super
      end

      # @return [Object] as in Rack
      def fetch_header(name, ...)
        Watch.current&.header(name)
        super
      end

      # @return [Boolean] as in Rack
      def has_header?(name)
        Watch.current&.header(name)
        super
      end

      # @return [Object] as in Rack
      def each_header(...)
        Watch.current&.all_headers
        super
      end

      # @return [Array<Mime::Type>] as in Rails: part of the key
      def accepts = Watch.current ? Watch.quietly { super } : super

      # @return [Array<Mime::Type>] as in Rails: part of the key
      def formats = Watch.current ? Watch.quietly { super } : super

      # @return [Boolean] as in Rails: a question of Rails' renderer
      def should_apply_vary_header? = Watch.current ? Watch.quietly { super } : super

      # @return [ActionDispatch::Cookies::CookieJar] which tells by itself what is read of it
      def cookie_jar = Watch.current ? Watch.quietly { super } : super

      # @return [Hash] as in Rack
      def cookies
        watch = Watch.current
        watch ? watch.cookies_of_user { super } : super
      end

      # @return [Object] as in Rails
      def session_options
        watch = Watch.current
        watch ? Watch.quietly { super } : super
      end

      # @return [String] as in Rails
      def remote_ip
        Watch.current&.header("REMOTE_ADDR")
        super
      end

      # @return [String] as in Rack
      def ip
        Watch.current&.header("REMOTE_ADDR")
        super
      end

      # @return [String, nil] as in Rails
      def content_security_policy_nonce
        watch = Watch.current
        watch ? watch.only_once(:nonce) { super } : super
      end
    end
  end
end
