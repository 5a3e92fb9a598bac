# frozen_string_literal: true

require_relative "row"
require_relative "stage"

module WhatBlocks
  # All rows, in the order of the document. The files in rows/ fill it:
  #
  #   WhatBlocks::Catalogue.define "Pipes and streams" do
  #     waits("IO#gets", "empty pipe") { reader = fed("a\n"); measure("a\n") { reader.gets } }
  #     quick("IO.pipe") { measure(Array) { IO.pipe } }
  #   end
  #
  # A body runs on a Stage, in a fiber of the loop, and hands exactly one call to
  # `measure`, together with what that call has to return.
  class Catalogue
    class << self
      # @param group [String] the table's heading
      def define(group, &block) = new(group).instance_eval(&block)

      # @param parts [Array<String>] of the keys wanted; none: all rows
      # @return [Array<Row>]
      def rows(*parts)
        Dir[File.join(__dir__, "rows", "*.rb")].sort.each { |file| require file }
        parts.empty? ? all : all.select { |row| parts.any? { |part| row.key.include?(part) } }
      end

      # @return [Array<Row>] those defined so far
      def all = @all ||= []
    end

    def initialize(group)
      @group = group
    end

    # Each takes the call as Ruby's documentation writes it, and the situation.
    %i[waits quick computes].each do |kind|
      define_method(kind) { |call, situation = nil, &body| add(kind, call, situation, body) }
    end

    private

    def add(kind, call, situation, body)
      row = Row.new(group: @group, call:, situation:, kind:, body:)
      raise ArgumentError, "two rows are named #{row.key.inspect}: tell their situations apart" if known?(row)
      self.class.all << row
    end

    def known?(row) = self.class.all.any? { |other| other.key == row.key }
  end
end
