# frozen_string_literal: true

# How the app with two URLs is started: one process of NeverBlock's server, whichever URL is asked.
#
#   Bench::HttpRatios::Launch.new(contestant, server.place(0)).command(3000)
require "json"
require_relative "../bench/load_path"
require_relative "../servers/launch"

module Bench
  class HttpRatios
    class Launch
      attr_reader :contestant

      # @param contestant [Contestant]
      # @param place [Hash{Symbol=>Object}] of the database
      def initialize(contestant, place)
        @contestant = contestant
        @place = place
      end

      # @return [nil] nothing: Database::Server has looked
      def missing = nil

      # @return [String] where it is started
      def folder = __dir__

      # @return [Servers::Core] that it is tied to
      def core = Servers::Core::SERVER

      # @return [Boolean] the app has no page about itself
      def counts_objects? = false

      # @param port [Integer]
      # @return [Array<String>]
      def command(port) = Servers::Launch.serve("tcp://127.0.0.1:#{port}", File.join(folder, "app.ru"))

      # @return [Hash{String=>String, nil}]
      def environment
        LoadPath::UNBUNDLED.merge(
          "RUBY_YJIT_ENABLE" => "1", "RACK_ENV" => "production",
          "BENCH_PLACE" => JSON.generate(@place), "GEM_PATH" => Bundler.bundle_path.to_s,
          "RUBYLIB" => [File.join(LoadPath::ROOT, "lib"), *LoadPath.folders(:rack, :database)].join(":")
        )
      end
    end
  end
end
