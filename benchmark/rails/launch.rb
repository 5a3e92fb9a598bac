# frozen_string_literal: true

# The start of each server with the app: one process, with `rails new`'s configuration for Puma and the defaults of the
# others.
#
#   launch = Bench::Rails::Launch.new(contestant, app)
#   launch.command(3000)     # => ["/usr/bin/ruby", ..., "puma", "-b", "tcp://127.0.0.1:3000"]
require "rbconfig"

module Bench
  class Rails
    class Launch
      attr_reader :contestant

      # @param contestant [Contestant]
      # @param app [App]
      def initialize(contestant, app)
        @contestant = contestant
        @app = app
      end

      # @return [nil] nothing: the bundle has them all
      def missing = nil

      # @return [String] where it is started
      def folder = @app.folder

      # @return [Servers::Core] that it is tied to
      def core = Servers::Core::SERVER

      # @return [Boolean] the app has no page about itself
      def counts_objects? = false

      # @param port [Integer]
      # @return [Array<String>]
      def command(port)
        arguments = case contestant.library
        when "neverblock" then ["serve", "-b", "tcp://127.0.0.1:#{port}"]
        when "puma" then ["-C", "config/puma.rb", "-b", "tcp://127.0.0.1:#{port}"]
        when "falcon" then ["serve", "--bind", "http://127.0.0.1:#{port}", "--count", "1"]
        end
        [RbConfig.ruby, "-W0", "-rbundler/setup", @app.executables.fetch(contestant.library), *arguments]
      end

      # @return [Hash{String=>String, nil}]
      def environment = {**@app.environment, "RAILS_GROUPS" => contestant.library, **contestant.environment}
    end
  end
end
