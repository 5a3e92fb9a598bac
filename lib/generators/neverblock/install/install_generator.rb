# frozen_string_literal: true

require "rails/generators/base"

module Neverblock
  module Generators
    # bin/rails g neverblock:install: config/neverblock.rb with what an app usually says; and in config/database.yml our
    # adapter where there is one for the app's, or a pool for more than a handful of threads. Says what it can't do.
    class InstallGenerator < ::Rails::Generators::Base
      source_root File.expand_path("templates", __dir__)
      desc "Writes config/neverblock.rb. In config/database.yml it sets neverblock_postgresql, neverblock_postgis or " \
        "neverblock_mysql (for trilogy) with connections: 12, or for another adapter max_connections: 20"

      DATABASES = "config/database.yml"
      # Rails' adapters, and ours whose connections all requests share.
      SHARED = {"postgresql" => "neverblock_postgresql", "postgis" => "neverblock_postgis",
                "trilogy" => "neverblock_mysql"}.freeze
      # As `rails new` writes it: max_connections since 8.1, pool before.
      POOL = /^(\s*)(max_connections|pool): <%= ENV\.fetch\("RAILS_MAX_THREADS"\).*%>\s*$/
      # Connections of a pool for requests in fibers.
      ENOUGH = 20
      SIZING = "docs/sizing.md of the gem has the arithmetic"
      private_constant :DATABASES, :SHARED, :POOL, :ENOUGH, :SIZING

      def adapter
        SHARED.each do |own, shared|
          gsub_file(DATABASES, /^(\s*)adapter: #{own}\s*$/, "\\1adapter: #{shared}") if adapter?(own)
        end
      end

      # With both kinds of adapter in the file, the line may be for either.
      def pool
        return if !databases.match?(POOL) || (shared? && others?)
        gsub_file(DATABASES, POOL, shared? ? "\\1connections: 12" : "\\1\\2: #{ENOUGH}")
      end

      def configuration = template("neverblock.rb.tt", "config/neverblock.rb")

      def advice
        if shared?
          say "connections: 12 is the limit of each database in each process; pool: and max_connections: have no " \
            "effect. #{SIZING}."
        end
        name, number = databases.match(/^\s*(max_connections|pool): (.*)$/)&.captures
        return if !others? || name.nil? || number.to_i >= ENOUGH
        say "#{name}: #{number} is the limit of each process: one more request that needs a connection waits, and " \
          "fails after 5 s. Write #{ENOUGH}. #{SIZING}."
      end

      private

      def adapter?(name) = databases.match?(/^\s*adapter: #{name}\s*$/)

      def shared? = SHARED.values.any? { |name| adapter?(name) }

      def others? = databases.scan(/^\s*adapter: (\S+)\s*$/).flatten.any? { |name| !name.start_with?("neverblock_") }

      def databases
        path = File.join(destination_root, DATABASES)
        File.exist?(path) ? File.read(path) : ""
      end

      def jobs? = Gem.loaded_specs.key?("solid_queue")
    end
  end
end
