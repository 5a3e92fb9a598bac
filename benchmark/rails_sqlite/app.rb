# frozen_string_literal: true

# The app of bin/bench rails_sqlite: what `rails new` writes when nothing is asked of it, in production, with the files of
# benchmark/rails_sqlite/app laid over it.
#
#   Bench::RailsSqlite::App.open { |app| app.folder }     # => "/tmp/.../shop"
module Bench
  class RailsSqlite < Rails
    class App < Rails::App
      OVERLAY = File.join(__dir__, "app")
      GEMS = %w[rails sqlite3 solid_cache solid_queue solid_cable puma].freeze
      SOLID = %w[solid_cache:install solid_queue:install solid_cable:install].freeze

      # @return [String, nil] the reason why it can't run
      def self.missing = ("its gems are not installed: .neverblock/log/bench-rails-bundle.log says why" unless File.exist?("#{GEMFILE}.lock"))

      # @yieldparam app [App]
      # @return [Object] the block's value
      # @raise [Failure]
      def self.open
        Dir.mktmpdir("bench") { |folder| yield new(File.join(folder, "shop"), nil) }
      end

      # @return [String] versions of its parts
      def versions = gems(GEMS)

      private

      def prepare
        FileUtils.cp_r(NeverBlockTest::RailsTemplate.folder(VERSION, environment:, database: "sqlite3"), folder)
        ruby("bin/rails", *SOLID)
        FileUtils.cp_r("#{OVERLAY}/.", folder)
        ruby("bin/rails", "db:prepare", "db:seed", "assets:precompile")
      end

      def database = {"SHOP_DATABASE" => "sqlite3"}
    end
  end
end
