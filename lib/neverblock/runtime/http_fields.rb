# frozen_string_literal: true

module NeverBlock
  # Names of HTTP fields on which the cache, the proxy and the caching of actions agree, in lower case.
  #
  #   HttpFields::CONTENT_ELSEWHERE.include?("x-sendfile")    # => true
  # @api private
  module HttpFields
    # Between two neighbours (RFC 9110, sections 7.6.1 and 11.7.3), with those that older programs take for such.
    HOP_BY_HOP = %w[
      connection http2-settings keep-alive proxy-authenticate proxy-authentication-info proxy-authorization
      proxy-connection te trailer transfer-encoding upgrade
    ].freeze
    # Those by which an app has the server in front send a file, or another response, in place of its content.
    CONTENT_ELSEWHERE = %w[
      x-accel-redirect x-lighttpd-send-file x-lighttpd-send-tempfile x-lighttpd-send2file x-reproxy-file x-reproxy-url
      x-sendfile
    ].freeze
    # Those by which a cache decides whether a response is for one client. They are never between two neighbours alone
    # (RFC 9110, section 7.6.1): an app that lists one in Connection is mistaken.
    DECISIVE = %w[
      age authentication-info cache-control cdn-cache-control content-encoding content-length content-range
      content-type date etag expires last-modified pragma set-cookie set-cookie2 vary
    ].freeze
  end
end
