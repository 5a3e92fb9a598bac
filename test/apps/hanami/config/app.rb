# frozen_string_literal: true

require "hanami"
require "securerandom"
require_relative "../../meeting"

module Cafe
  # The same as a Hanami app.
  class App < Hanami::App
    config.logger.stream = File::NULL
    config.actions.sessions = :cookie, {key: "cafe", secret: SecureRandom.hex(64)}
    config.actions.csrf_protection = false # the tests send forms without requesting them first
    config.middleware.use Rack::Static, urls: {"/static/big" => "/big"}, root: ENV.fetch("PUBLIC")
  end
end
