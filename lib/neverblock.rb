# frozen_string_literal: true

# What `gem "neverblock"` in a Gemfile loads: the runtime, and in a Rails app what Rails asks for.
#
#   require "neverblock"
#
# `neverblock serve` begins with the runtime alone, before there is a Rails; its app's Gemfile then comes here.
require_relative "neverblock/runtime"
require_relative "neverblock/railtie" if defined?(Rails::Railtie)
