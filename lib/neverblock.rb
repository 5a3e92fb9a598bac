# frozen_string_literal: true

# The file that `gem "neverblock"` in a Gemfile loads: the runtime, and the Railtie in a Rails app.
#
#   require "neverblock"
#
# `neverblock serve` first loads the runtime alone, before Rails exists; the app's Gemfile then loads this file.
require_relative "neverblock/runtime"
require_relative "neverblock/railtie" if defined?(Rails::Railtie)
NeverBlock.autoload :ActionCaching, "#{__dir__}/neverblock/action_caching"
NeverBlock.autoload :Cache, "#{__dir__}/neverblock/cache"
NeverBlock.autoload :CacheInvalidation, "#{__dir__}/neverblock/cache_invalidation"
NeverBlock.autoload :Pages, "#{__dir__}/neverblock/pages"
NeverBlock.autoload :Proxy, "#{__dir__}/neverblock/proxy"
NeverBlock.autoload :ReleaseAssets, "#{__dir__}/neverblock/release_assets"
