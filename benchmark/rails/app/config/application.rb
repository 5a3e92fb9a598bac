require_relative "boot"
require "rails/all"

# The gems for all, and with RAILS_GROUPS those of the server that is measured.
Bundler.require(*Rails.groups)

module Shop
  class Application < Rails::Application
    config.load_defaults 8.1
    config.autoload_lib(ignore: %w[assets tasks])

    # In the process, since the cache is not measured.
    config.cache_store = :memory_store

    # As the server's documentation says; ours does it by itself.
    config.active_support.isolation_level = ENV["SHOP_ISOLATION"].to_sym if ENV["SHOP_ISOLATION"]
  end
end
