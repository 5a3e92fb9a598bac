# frozen_string_literal: true

require "digest"
require "fileutils"
require "open3"
require "rbconfig"
require "tmpdir"

module NeverBlockTest
  # The output of `rails new`, made once per Rails version and kept as a template for the tests' app and for that of
  # bin/bench.
  #
  #   RailsTemplate.folder("8.1", environment: {"BUNDLE_GEMFILE" => gemfile, "BUNDLE_PATH" => path})     # => ".../8.1-0a1b2c"
  module RailsTemplate
    FOLDER = File.expand_path("../../.neverblock/rails", __dir__)
    SKIP = %w[bundle git docker ci rubocop brakeman kamal thruster bundler-audit].freeze

    module_function

    # Several processes may make it at the same time.
    # @param version [String]
    # @param environment [Hash{String=>String, nil}] selects the bundle that has this Rails
    # @param database [String] sqlite3: with Solid Cache, Solid Queue and Solid Cable
    # @return [String]
    # @raise [RuntimeError] if `rails new` fails, with its output
    def folder(version, environment:, database: "postgresql")
      lock = "#{environment.fetch("BUNDLE_GEMFILE")}.lock"
      words = ["-d", database, "-a", "propshaft", *(SKIP + ((database == "sqlite3") ? [] : ["solid"])).map { |name| "--skip-#{name}" }]
      path = File.join(FOLDER, "#{version}-#{Digest::SHA256.hexdigest(File.read(lock) + words.join)[0, 12]}")
      return path if File.directory?(path)
      FileUtils.mkdir_p(FOLDER)
      Dir.mktmpdir("new", FOLDER) do |folder|
        output, result = Open3.capture2e(environment, RbConfig.ruby, "-rbundler/setup", "-e", "load Gem.bin_path('railties', 'rails')",
          "new", "shop", *words, chdir: folder)
        raise "rails new failed:\n#{output}" unless result.success?
        File.rename("#{folder}/shop", path) unless File.directory?(path)
      end
      path
    end
  end
end
