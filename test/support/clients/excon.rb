# frozen_string_literal: true

require_relative "../clients"

module NeverBlockTest
  module Clients
    # The gem excon.
    class Excon
      # Sends its body without waiting for 100, and takes an interim answer for the final one.
      CANNOT = %i[expect hints].freeze

      def self.missing = Clients.missing_gem("excon")

      def initialize(port, socket: nil)
        options = {persistent: true, read_timeout: LIMIT, middlewares: ::Excon.defaults[:middlewares] + [::Excon::Middleware::Decompress]}
        # On a unix socket excon would send an empty Host, which the server refuses.
        options = {**options, socket:, headers: {"Host" => "localhost"}} if socket
        @connection = ::Excon.new(socket ? "unix:///" : "http://127.0.0.1:#{port}", options)
      end

      def call(method, path, headers: {}, body: nil)
        options = {method:, path:, headers:}
        if body.is_a?(Array)
          pieces = body.dup
          options[:request_block] = -> { pieces.shift || "" }
        elsif body
          options[:body] = body
        end
        response = @connection.request(options)
        Clients.answer(response.status, response.headers.to_h, response.body)
      end

      def several(*paths) = paths.map { |path| call("GET", path) }

      def stream(path)
        @connection.request(method: "GET", path:, response_block: ->(piece, *) { yield piece })
      end

      def close = @connection.reset
    end
  end
end
