# frozen_string_literal: true

require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "action_view/railtie"
require "rails/test_unit/railtie"
require "neverblock"

module Catalogue
  # What the app's visitors ask for: /traffic.
  TRAFFIC = NeverBlock::Cache::Traffic.new

  class Application < Rails::Application
    config.root = File.expand_path("..", __dir__)
    config.load_defaults 8.1
    config.eager_load = Rails.env.production?
    config.consider_all_requests_local = !Rails.env.production?
    config.hosts = nil unless Rails.env.production?
    config.secret_key_base = ENV.fetch("SECRET_KEY_BASE") { "0" * 64 unless Rails.env.production? }
    config.public_file_server.enabled = true
    config.active_record.maintain_test_schema = false # the tests load it

    # Workers share what is stored, so that a purge by one of them counts for all: folders here, Redis or Solid Cache
    # elsewhere. Pages of the tests' database are not those of development.
    config.action_controller.perform_caching = true
    config.cache_store = :file_store, root.join("tmp", Rails.env, "cache").to_s

    # The last one is outermost: it counts all requests. Those that the cache answers never reach Rails.
    config.middleware.insert_before 0, NeverBlock::ReleaseAssets,
      releases: "#{ENV.fetch("RELEASES") { File.expand_path("..", root) }}/*/public", current: root.join("public").to_s
    config.middleware.insert_before 0, NeverBlock::Cache, store: "file:#{root.join("tmp", Rails.env, "pages")}?bytes=64m"
    config.middleware.insert_before 0, NeverBlock::Cache::Traffic::Recorder, TRAFFIC
  end
end
