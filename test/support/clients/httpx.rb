# frozen_string_literal: true

require_relative "../clients"

module NeverBlockTest
  module Clients
    # The gem httpx.
    class Httpx
      # It fails on an unrequested interim answer. Release 1.9 omits the empty line after the last chunk, so its chunked
      # bodies never end.
      CANNOT = %i[hints chunked].freeze

      def self.missing = Clients.missing_gem("httpx")

      def initialize(port, socket: nil)
        @origin = "http://127.0.0.1:#{port}"
        @session = HTTPX.plugin(:persistent).with(timeout: {request_timeout: LIMIT}, max_retries: 0)
        @session = @session.with(transport: "unix", addresses: [socket]) if socket
      end

      def call(method, path, headers: {}, body: nil, session: @session)
        headers = {"content-type" => "application/octet-stream", **headers} if body
        response = session.request(method, @origin + path, headers:, **(body ? {body:} : {}))
        raise response.error if response.is_a?(HTTPX::ErrorResponse)
        Clients.answer(response.status, response.headers.to_h.transform_values { |value| value.is_a?(String) ? [value] : value }, response.to_s)
      end

      def several(*paths) = paths.map { |path| call("GET", path) }

      def stream(path, &block)
        HTTPX.plugin(:stream).with(timeout: {request_timeout: LIMIT}).get(@origin + path, stream: true).each(&block)
      end

      def expect(path, body)
        call("POST", path, body:, session: HTTPX.plugin(:expect).with(timeout: {request_timeout: LIMIT}, expect_timeout: LIMIT))
      end

      def close = @session.close
    end
  end
end
