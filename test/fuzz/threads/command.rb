# frozen_string_literal: true

require_relative "../runtime/command"
require_relative "generator"
require_relative "oracle"
require_relative "plants"

module NeverBlockFuzz
  # Runs random programs under threads and under fibers, and prints each difference with the smallest program that has
  # it.
  #
  #   StrandsCommand.new(ENV).call      # => true if no seed failed
  class StrandsCommand < Command
    private

    def generator = StrandsGenerator

    def runner(**) = Oracle.new(**)

    def defects = StrandsPlants

    def task = "fuzz:threads"

    def text(plan) = Text.new(plan).program

    def shrink? = @environment["SHRINK"] != "no"
  end
end
