# frozen_string_literal: true

require "net/http"
require "stringio"
require_relative "../clients"

module NeverBlockTest
  module Clients
    # Ruby's own Net::HTTP.
    class NetHttp
      CANNOT = %i[unix].freeze

      def self.missing = nil

      def initialize(port)
        @http = Net::HTTP.new("127.0.0.1", port, nil)
        @http.read_timeout = @http.open_timeout = @http.write_timeout = LIMIT
        @http.max_retries = 0
        @http.start
      end

      def call(method, path, headers: {}, body: nil)
        request = Net::HTTP.const_get(method.capitalize).new(path, headers)
        request["Content-Type"] = "application/octet-stream" if body
        if body.is_a?(Array)
          request["Transfer-Encoding"] = "chunked"
          request.body_stream = StringIO.new(body.join)
        elsif body
          request.body = body
        end
        response = @http.request(request)
        Clients.answer(response.code, response.to_hash, response.body)
      end

      def several(*paths) = paths.map { |path| call("GET", path) }

      def stream(path, &block)
        @http.request(Net::HTTP::Get.new(path)) { |response| response.read_body(&block) }
      end

      # Waits so many seconds for the 100 before it sends the body.
      def expect(path, body)
        @http.continue_timeout = LIMIT
        call("POST", path, headers: {"Expect" => "100-continue"}, body:)
      end

      def close = @http.finish
    end
  end
end
