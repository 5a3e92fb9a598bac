# frozen_string_literal: true

require "rails/generators/base"

module Neverblock
  module Generators
    # bin/rails g neverblock:install: config/neverblock.rb with what an app usually says, and the adapter for PostgreSQL
    # where config/database.yml has Rails' own.
    class InstallGenerator < ::Rails::Generators::Base
      source_root File.expand_path("templates", __dir__)
      desc "Writes config/neverblock.rb, and sets adapter: neverblock_postgresql in config/database.yml"

      def configuration = template("neverblock.rb.tt", "config/neverblock.rb")

      def adapter
        path = "config/database.yml"
        return unless File.exist?(File.join(destination_root, path))
        return unless File.read(File.join(destination_root, path)).match?(/^\s*adapter: postgresql\s*$/)
        gsub_file(path, /^(\s*)adapter: postgresql\s*$/, "\\1adapter: neverblock_postgresql")
      end

      private

      def jobs? = Gem.loaded_specs.key?("solid_queue")
    end
  end
end
