# frozen_string_literal: true

# The caches that bin/bench cache measures, by the names of its contestants' libraries.
#
#   Measured::Kinds.wrap("memory", app)              # => NeverBlock::Cache
#   Measured::Kinds.wrap("rack_file", app, folder)   # => Rack::Cache
module Measured
  module Kinds
    module_function

    # @param kind [String]
    # @param app [#call]
    # @param folder [String, nil] of a store of files
    # @return [#call]
    def wrap(kind, app, folder = nil)
      case kind
      when "alone" then app
      when "memory" then ours(app, "memory:256m")
      when "file" then ours(app, "file:#{folder}?bytes=256m")
      when "rack_heap" then rack_cache(app, "heap:/", "heap:/")
      when "rack_file" then rack_cache(app, "file:#{folder}/meta", "file:#{folder}/entities")
      else raise ArgumentError, "there is no cache \"#{kind}\""
      end
    end

    def ours(app, store)
      require "neverblock/cache"
      NeverBlock::Cache.new(app, store:)
    end

    def rack_cache(app, metastore, entitystore)
      require "rack"
      require "rack/cache"
      Rack::Cache.new(app, metastore:, entitystore:, verbose: false)
    end
  end
end
