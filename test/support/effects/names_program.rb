# frozen_string_literal: true

require "json"
require_relative "../slow_names"

module NeverBlockTest
  module Effects
    # Runs the cells of all rows that need a slow resolver in one program under that resolver (see slow_names.rb).
    #
    #   program = NamesProgram.new(assert_ruby(NamesProgram::CODE, **resolver))
    #   program.call(row, :cancel)     # => assertions made; raises Minitest::Assertion
    class NamesProgram
      CODE = <<~RUBY
        $LOAD_PATH.unshift "test"
        require "support/effects"
        require "support/effects/names_program"
        NeverBlockTest::Effects::NamesProgram.print
      RUBY

      # In the program: runs the cells, and prints their results.
      def self.print
        outcomes = Effects.rows.each_value.select { |row| row.names && row.here? }.flat_map do |row|
          WAYS.map { |way| [row.name, way, walk(row, way)] }
        end
        puts JSON.generate(outcomes)
      end

      def self.walk(row, way)
        Cell.walk(row, way)
      rescue Exception => error # standard:disable Lint/RescueException -- assertions are none
        error.full_message(highlight: false)
      end
      private_class_method :walk

      # @param output [String] what the program printed
      def initialize(output)
        @outcomes = JSON.parse(output).to_h { |name, way, outcome| [[name, way.to_sym], outcome] }
      end

      # @return [Integer] assertions made
      # @raise [Minitest::Assertion] the failure in the program
      def call(row, way)
        outcome = @outcomes.fetch([row.name, way])
        outcome.is_a?(Integer) ? outcome : raise(Minitest::Assertion, outcome)
      end
    end
  end
end
