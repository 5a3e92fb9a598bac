# frozen_string_literal: true

require_relative "../errors"
require_relative "../runtime/extension"

module NeverBlock
  class Postgres
    # Loads the gem pg, and checks its release: an older one would fail at the first statement, with a missing method.
    #
    #   Driver.load      # require "pg"; raises if it is too old
    # @api private
    module Driver
      # The first release with all methods that pipelines need.
      NEEDED = "1.6"

      # @return [void]
      # @raise [LoadError] if pg is missing or too old
      def self.load
        require "pg"
        check(PG::VERSION)
        @native = Libpq.load($LOADED_FEATURES.grep(%r{/pg_ext\.#{RbConfig::CONFIG["DLEXT"]}\z}).last.to_s)
      rescue LoadError => error
        raise unless error.path == "pg"
        raise LoadError,
          "NeverBlock's PostgreSQL needs the gem pg #{NEEDED} or later, and there is none: run `bundle add pg`"
      end

      # @return [Boolean] whether {Libpq} can call libpq directly
      def self.native? = @native

      # @param version [String]
      # @return [void]
      # @raise [LoadError]
      def self.check(version)
        return if (numbers(version) <=> numbers(NEEDED)) >= 0
        raise LoadError, "NeverBlock's PostgreSQL needs the gem pg #{NEEDED} or later, for its pipelines, and this " \
          "is pg #{version}: " \
          "run `bundle update pg --conservative`, or name pg \"~> #{NEEDED}\" in the Gemfile where that is held back"
      end

      def self.numbers(version) = version.split(".").first(2).map(&:to_i)
      private_class_method :numbers
    end
  end
end
