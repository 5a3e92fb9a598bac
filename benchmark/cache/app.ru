# frozen_string_literal: true

require_relative "app"
require_relative "kinds"

run Measured::Kinds.wrap(ENV.fetch("BENCH_CACHE"), Measured::CachedApp.new, ENV.fetch("BENCH_FOLDER"))
