# frozen_string_literal: true

require "json"
require_relative "app"

run Measured::RatiosApp.new(JSON.parse(ENV.fetch("BENCH_PLACE"), symbolize_names: true))
