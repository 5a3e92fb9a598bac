# frozen_string_literal: true

require_relative "../errors"

module NeverBlock
  # Refuses releases of Active Record that the adapter was not tested with: it relies on how they use connections.
  #
  #   ActiveRecordRelease.check      # raises for others, unless NEVERBLOCK_UNTESTED_RAILS=1
  # @api private
  module ActiveRecordRelease
    TESTED = %w[7.2 8.0 8.1].freeze

    # Variable of the environment that turns the check off.
    OVERRIDE = "NEVERBLOCK_UNTESTED_RAILS"

    # @param version [Gem::Version]
    # @param adapter [String] the name of ours, and of Rails' own
    # @return [void]
    # @raise [ConfigurationError]
    def self.check(version = ActiveRecord.version, environment = ENV, adapter: "neverblock_postgresql",
      instead: "postgresql")
      return if TESTED.include?(version.segments.first(2).join(".")) || environment[OVERRIDE] == "1"
      raise ConfigurationError, "adapter: #{adapter} was not tested with Active Record #{version}, " \
        "but with #{TESTED[..-2].join(", ")} and #{TESTED.last}. " \
        "Use one of these, or adapter: #{instead} with this one; " \
        "#{OVERRIDE}=1 in the environment makes it try nevertheless, at your own risk"
    end
  end
end
