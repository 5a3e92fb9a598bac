# frozen_string_literal: true

require_relative "../clients"

module NeverBlockTest
  module Clients
    # The gem http.
    class HttpRb
      CANNOT = %i[unix expect].freeze # it sends its body without waiting for 100

      def self.missing = Clients.missing_gem("http")

      def initialize(port)
        @client = HTTP.use(:auto_inflate).timeout(LIMIT).persistent("http://127.0.0.1:#{port}")
      end

      def call(method, path, headers: {}, body: nil)
        headers = {"Content-Type" => "application/octet-stream", **headers} if body
        headers = {"Transfer-Encoding" => "chunked", **headers} if body.is_a?(Array)
        response = @client.request(method, path, headers: {"Accept-Encoding" => "gzip", **headers}, body:)
        Clients.answer(response.status.code, response.headers.to_a, response.to_s)
      end

      def several(*paths) = paths.map { |path| call("GET", path) }

      def stream(path, &)
        @client.get(path).body.each(&)
      end

      def close = @client.close
    end
  end
end
