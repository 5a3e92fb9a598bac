# frozen_string_literal: true

module NeverBlock
  class Railtie
    # Examines an app before it is served, and warns about gems and settings that would hold the loop.
    #
    #   Advice.new(Rails.application).call { |line| puts line }
    # @api private
    class Advice
      # Gems whose calls wait inside C without a scheduler, with the remedy.
      DRIVERS = {
        "mysql2" => "its connects and results hold the loop, and with prepared_statements: true each statement. " \
          "The gem trilogy waits in Ruby: adapter: neverblock_mysql. With neverblock_mysql2 they are offloaded",
        "hiredis-client" => "its waits hold the loop. Remove it, or give Redis clients driver: :ruby",
        "typhoeus" => "its requests hold the loop. Net::HTTP, httpx, http and excon do not",
        "ethon" => "its requests hold the loop. Net::HTTP, httpx, http and excon do not",
        "extralite" => "its queries hold the loop. NeverBlock.offload { } runs long ones on a thread",
        "sqlite3" => "its queries hold the loop while they run. docs/rails.md says which apps can use it; " \
          "PostgreSQL has adapter: neverblock_postgresql"
      }.freeze
      # Gems without a warning in development and test.
      SMALL = %w[sqlite3].freeze

      # @return [Hash{String=>Object}] without mysql2 where nothing has required it, since it is idle then
      def self.loaded_gems = Object.const_defined?(:Mysql2) ? Gem.loaded_specs : Gem.loaded_specs.except("mysql2")

      # @param app [Rails::Application]
      # @param gems [Hash{String=>Object}] the loaded gems, by name
      def initialize(app, gems: Advice.loaded_gems, local: ::Rails.env.local?)
        @app = app
        @gems = gems
        @local = local
      end

      # @yieldparam line [String] a warning
      # @return [void]
      def call(&)
        concurrency&.then(&)
        drivers.each(&)
      end

      private

      def concurrency
        if @app.config.allow_concurrency == false
          "config.allow_concurrency is false: requests run one at a time. Remove that line"
        end
      end

      def drivers
        DRIVERS.filter_map do |gem, advice|
          "the gem #{gem} is loaded: #{advice}" if @gems.key?(gem) && !(@local && SMALL.include?(gem))
        end
      end
    end
  end
end
