# frozen_string_literal: true

require "fileutils"
require_relative "../servers/launch"

# How the server of a row is started, with the cache of a contestant in front of the app.
#
#   launch = Bench::Cache::Launch.new(contestant, row)
#   launch.command(3000)      # => ["/usr/bin/ruby", ".../exe/neverblock", "serve", ...]
module Bench
  class Cache
    class Launch < Servers::Launch
      # @return [String] where it is started
      def folder = __dir__

      # With an empty store.
      # @param port [Integer]
      # @return [Array<String>]
      def command(port)
        FileUtils.rm_rf(store)
        FileUtils.mkdir_p(store)
        return super unless library == "neverblock"
        [RbConfig.ruby, File.join(LoadPath::ROOT, "exe", "neverblock"), "serve", "-b", "tcp://127.0.0.1:#{port}", "-C", File.join(folder, "start", "neverblock.rb"), rackup]
      end

      # @return [Hash{String=>String, nil}]
      def environment
        super.merge(
          "RUBYLIB" => [File.join(LoadPath::ROOT, "lib"), *LoadPath.folders(:rack, :cache, library.to_sym)].join(":"),
          "BENCH_CACHE" => contestant.library, "BENCH_FOLDER" => store
        )
      end

      # @return [String, nil] why it cannot be started
      def missing = super || Cache.without_rack_cache(contestant)

      private

      def library = @row.server

      def rackup = File.join(folder, "app.ru")

      def store = File.join(STATE, "cache", "#{contestant.library}-#{@row.id}")
    end
  end
end
