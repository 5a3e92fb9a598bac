# frozen_string_literal: true

require "test_helper"
require "support/cluster/deploys"
require "support/long/record"
require "support/rails_app"

# Deployments of a Rails app in production, with workers and under load, each request accounted for. 20 of each with
# bin/test --long.
class RailsDeploysTest < Minitest::Test
  COUNT = Integer(ENV.fetch("NEVERBLOCK_LONG_DEPLOYS", "3"))

  # Copies of one app, of which each has its name.
  class RailsReleases < NeverBlockTest::Releases
    class << self
      attr_accessor :app

      def path = "/release"

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

  def setup
    reason = NeverBlockTest::RailsApp.missing and skip reason
  end

  def test_deploys_lose_nothing
    NeverBlockTest::RailsApp.open do |app|
      app.run("bin/rails", "db:prepare")
      FileUtils.rm_rf(["#{app.folder}/log", "#{app.folder}/tmp"])
      RailsReleases.app = app
      %w[USR1 USR2].each do |signal|
        deploys = NeverBlockTest::Deploys.new(signal, count: COUNT, releases: RailsReleases).call
        assert_empty deploys.lost
        assert_equal deploys.sent, deploys.answered
        assert_operator deploys.answered, :>, 100
        NeverBlockTest::Record.add("rails", version: app.version, signal:, deploys: COUNT, refused: deploys.refused, requests: deploys.sent,
          lost: deploys.lost.size, seconds: deploys.seconds.round)
      end
    end
  end
end
