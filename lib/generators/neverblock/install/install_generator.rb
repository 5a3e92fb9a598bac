# frozen_string_literal: true

require "rails/generators/base"

module Neverblock
  module Generators
    # bin/rails g neverblock:install: config/neverblock.rb with what an app usually says; and in config/database.yml the
    # adapter for PostgreSQL where it has Rails' own, and a pool for more than a handful of threads where it has SQLite.
    class InstallGenerator < ::Rails::Generators::Base
      source_root File.expand_path("templates", __dir__)
      desc "Writes config/neverblock.rb, and sets adapter: neverblock_postgresql " \
        "(SQLite: max_connections: 20) in config/database.yml"

      DATABASES = "config/database.yml"
      # As `rails new` writes it: max_connections since 8.1, pool before.
      POOL = /^(\s*)(max_connections|pool): <%= ENV\.fetch\("RAILS_MAX_THREADS"\).*%>\s*$/
      private_constant :DATABASES, :POOL

      def configuration = template("neverblock.rb.tt", "config/neverblock.rb")

      def adapter
        if adapter?("postgresql")
          gsub_file(DATABASES, /^(\s*)adapter: postgresql\s*$/, "\\1adapter: neverblock_postgresql")
        end
      end

      def pool
        gsub_file(DATABASES, POOL, "\\1\\2: 20") if sqlite? && databases.match?(POOL)
      end

      private

      def adapter?(name) = databases.match?(/^\s*adapter: #{name}\s*$/)

      def sqlite? = adapter?("sqlite3") && !adapter?("(neverblock_)?postgresql")

      def databases
        path = File.join(destination_root, DATABASES)
        File.exist?(path) ? File.read(path) : ""
      end

      def jobs? = Gem.loaded_specs.key?("solid_queue")
    end
  end
end
