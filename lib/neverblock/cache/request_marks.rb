# frozen_string_literal: true

require_relative "credentials"
require_relative "origin"

module NeverBlock
  class Cache
    # Entries of env that decide about a request by their presence: {RequestPolicy}.
    #
    #   RequestMarks.table(["HTTP_X_TENANT"]).key?("HTTP_COOKIE")    # => true
    # @api private
    module RequestMarks
      # Fields whose presence decides.
      STOPS = {
        "HTTP_TRANSFER_ENCODING" => :body, "HTTP_UPGRADE" => :upgrade, "HTTP_HTTP2_SETTINGS" => :upgrade,
        "HTTP_SEC_WEBSOCKET_KEY" => :upgrade, "HTTP_EXPECT" => :expect,
        "HTTP_X_HTTP_METHOD_OVERRIDE" => :override, "HTTP_X_HTTP_METHOD" => :override, "HTTP_X_METHOD" => :override,
        "HTTP_X_METHOD_OVERRIDE" => :override, "HTTP__METHOD" => :override, "HTTP_X_ORIGINAL_URL" => :override,
        "HTTP_X_ORIGINAL_URI" => :override, "HTTP_X_ORIGINAL_HOST" => :override, "HTTP_X_REWRITE_URL" => :override,
        "HTTP_X_HOST" => :override, "HTTP_X_HTTP_HOST_OVERRIDE" => :override, "HTTP_X_HOST_OVERRIDE" => :override,
        "HTTP_HOST_OVERRIDE" => :override, "HTTP_X_FORWARDED_PREFIX" => :override, "HTTP_X_FORWARDED_PATH" => :override,
        "HTTP_X_FORWARDED_URI" => :override, "HTTP_X_SCRIPT_NAME" => :override
      }.freeze

      # @param entries [Array<String>] further headers that are credentials
      # @return [Hash{String=>true}] all of them, credentials and the words of proxies included
      def self.table(entries)
        [*STOPS.keys, *Origin::CLAIMS, *Credentials::ALL.keys, *entries].to_h { |name| [name, true] }.freeze
      end
    end
  end
end
