# frozen_string_literal: true

require "fileutils"
require_relative "cluster/releases"
require_relative "rails_app"

module NeverBlockTest
  # Releases of a Rails app in production: copies of one app, each with a name.
  #
  #   RailsReleases.open { |releases| Deploys.new("USR1", count: 3, releases:).call }
  class RailsReleases < Releases
    class << self
      # @return [RailsApp]
      attr_reader :app

      # @yieldparam releases [Class] for Deploys, Kills and Growth
      def open
        RailsApp.open do |app|
          app.run("bin/rails", "db:prepare")
          FileUtils.rm_rf(["#{app.folder}/log", "#{app.folder}/tmp"])
          @app = app
          yield self
        end
      end

      def path = "/release"

      def pages = %w[/release/ /release/sleep?0.001 /notes /notes.json /count]

      def process
        environment = {**app.environment, "RAILS_ENV" => "production", "RAILS_LOG_LEVEL" => "error", "SECRET_KEY_BASE" => "0" * 64}
        {environment:, command: ["-rbundler/setup", "-e", "load Gem.bin_path('neverblock', 'neverblock')", "--", "serve"], ruby: ["-W0"], library: []}
      end
    end

    private

    def write(release, name, broken)
      FileUtils.cp_r("#{self.class.app.folder}/.", release)
      File.write("#{release}/config/initializers/release.rb", "#{broken}\nRELEASE = #{name.inspect}\nRails.application.config.force_ssl = false\n")
    end
  end
end
