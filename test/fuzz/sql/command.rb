# frozen_string_literal: true

require_relative "../runtime/command"
require_relative "generator"
require_relative "oracle"
require_relative "plants"

module NeverBlockFuzz
  # Runs random programs of SQL on the stock adapter and on ours, and prints each difference.
  #
  #   SqlCommand.new(ENV).call      # => true if no seed failed
  class SqlCommand < Command
    private

    def generator = SqlGenerator

    def runner(**) = SqlOracle.new(**)

    def defects = SqlPlants

    def task = "fuzz:sql"

    def tell(outcome)
      super
      @output.puts text(outcome.plan).gsub(/^/, "    ") unless shrink?
    end
  end
end
