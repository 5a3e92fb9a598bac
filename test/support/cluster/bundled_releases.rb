# frozen_string_literal: true

require "open3"
require "rbconfig"
require_relative "releases"

module NeverBlockTest
  # Releases with a bundle each: a release answers with the version of a gem that its Gemfile.lock names.
  #
  #   releases = BundledReleases.new(folder, workers: 1)
  #   releases.publish("1.0")        # answers "1.0"
  #   releases.publish("2.0")
  class BundledReleases < Releases
    APP = <<~RUBY
      Bundler.require
      run ->(_env) { [200, {}, [Flavour::VERSION]] }
    RUBY

    class << self
      # As `bundle exec neverblock serve` in the folder of the app.
      def process = {environment:, command: ["-S", "bundle", "exec", File.join(ROOT, "exe", "neverblock"), "serve"], ruby: ["-W0"], library: []}

      # @return [Hash{String=>String, nil}] clears the bundle of the tests
      def environment = {"BUNDLE_GEMFILE" => nil, "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => File.join(ROOT, "vendor", "bundle"), "RUBYOPT" => nil, "RUBYLIB" => nil}
    end

    private

    # @param missing [String, nil] a gem that doesn't exist
    def write(release, version, missing)
      gem = File.join(release, "vendor", "flavour")
      FileUtils.mkdir_p("#{gem}/lib")
      File.write("#{gem}/lib/flavour.rb", "module Flavour\n  VERSION = #{version.inspect}\nend\n")
      File.write("#{gem}/flavour.gemspec", "Gem::Specification.new('flavour', #{version.inspect}) { |gem| gem.authors, gem.summary, gem.files = 'tests', 'tests', %w[lib/flavour.rb] }\n")
      File.write("#{release}/config.ru", APP)
      gemfile = "source Gem.sources.to_a.first\ngem 'neverblock', path: #{ROOT.inspect}\ngem 'flavour', path: 'vendor/flavour'\n"
      File.write("#{release}/Gemfile", gemfile)
      lock(release)
      File.write("#{release}/Gemfile", "gem #{missing.inspect}\n", mode: "a") if missing
    end

    def lock(release)
      output, status = Open3.capture2e(self.class.environment, RbConfig.ruby, "-S", "bundle", "lock", "--local", chdir: release)
      raise Minitest::Assertion, "bundle lock failed:\n#{output}" unless status.success?
    end
  end
end
