# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/extension"

module NeverBlock
  class Postgres
    # Which releases of the gem pg will do: an older one would fail at the first statement, with a method that it lacks.
    #
    #   Driver.load      # require "pg"; raises, if that is too old
    # @api private
    module Driver
      # The first with all that a pipeline needs.
      NEEDED = "1.6"

      # @return [void]
      # @raise [LoadError] if there is none, or an older one
      def self.load
        require "pg"
        check(PG::VERSION)
        @native = Libpq.load($LOADED_FEATURES.grep(%r{/pg_ext\.#{RbConfig::CONFIG["DLEXT"]}\z}).last.to_s)
      rescue LoadError => error
        raise unless error.path == "pg"
        raise LoadError, "NeverBlock's PostgreSQL needs the gem pg #{NEEDED} or later, and there is none: run `bundle add pg`"
      end

      # @return [Boolean] whether libpq can be asked without pg: {Libpq}
      def self.native? = @native

      # @param version [String]
      # @return [void]
      # @raise [LoadError]
      def self.check(version)
        return if (numbers(version) <=> numbers(NEEDED)) >= 0
        raise LoadError, "NeverBlock's PostgreSQL needs the gem pg #{NEEDED} or later, for its pipelines, and this is pg #{version}: " \
          "run `bundle update pg --conservative`, or name pg \"~> #{NEEDED}\" in the Gemfile where that is held back"
      end

      def self.numbers(version) = version.split(".").first(2).map(&:to_i)
      private_class_method :numbers
    end
  end
end
