require_relative "boot"
require "rails/all"

# The gems for all, and with RAILS_GROUPS those of the server that is measured.
Bundler.require(*Rails.groups)

module Shop
  class Application < Rails::Application
    config.load_defaults 8.1
    config.autoload_lib(ignore: %w[assets tasks])
  end
end
