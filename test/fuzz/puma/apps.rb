# frozen_string_literal: true

require "rack"
require_relative "apps/echo"
require_relative "apps/rails"
require_relative "apps/respond"

module NeverBlockPumaFuzz
  # The app of both servers: /rails is Rails, /respond responds as its query says, all else prints its env, /lint with
  # Rack's own checks of it.
  #
  #   [200, {"content-type" => "text/plain", "x-request" => "GET /a HTTP/1.1"}, ["…"]] = Apps.call(env)
  module Apps
    PLACES = {%r{\A/rails(/|\z)} => Rails, %r{\A/respond\z} => Respond, %r{\A/lint\z} => Rack::Lint.new(Echo)}.freeze

    def self.call(env)
      _, app = PLACES.find { |path, _| path.match?(env["PATH_INFO"].b) } || [nil, Echo]
      request = [env["REQUEST_METHOD"], env["REQUEST_URI"].b[0, 300], env["SERVER_PROTOCOL"]].join(" ").b.dump[1..-2]
      status, headers, body = app.call(env)
      [status, headers.to_h.merge("x-request" => request), body]
    end
  end
end
