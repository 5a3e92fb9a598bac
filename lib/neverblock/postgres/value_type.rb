# frozen_string_literal: true

require_relative "../runtime/value_type"

module NeverBlock
  class Postgres
    # What an option of PostgreSQL takes: types of its own beside those of all. Adapters share a database by their
    # configurations, so that values that mean the same are kept as the same, however they were written.
    #
    #   ValueType.limit.take(60.0)       # => 60
    #   ValueType.limit.read("false")    # => 0
    # @api private
    class ValueType < NeverBlock::ValueType
      SWITCHES = {"true" => true, "false" => false}.freeze
      private_constant :SWITCHES

      # @param usual [Numeric, nil] the seconds that `true` stands for
      # @return [ValueType] seconds, where 0 is no limit, and nil not set
      def self.limit(usual = nil)
        words = "a number of seconds, false or 0 for no limit#{", or true for #{usual}" if usual}"
        new(words, text: ->(text) { SWITCHES.fetch(text) { Float(text, exception: false) } }) do |value|
          case value
          when nil then nil
          when false then 0
          when true then usual || REFUSED
          else number(value)
          end
        end
      end

      # @return [ValueType] seconds, where 0 is not to wait, and nil no limit
      def self.wait
        new("a number of seconds, 0 or more, or nil for no limit",
          text: ->(text) { Float(text, exception: false) }) do |value|
          value.nil? ? nil : number(value)
        end
      end

      # @return [ValueType] a number from 0 to 1
      def self.part
        new("a number from 0 to 1", text: ->(text) { Float(text, exception: false) }) { |value| number(value, 1) }
      end

      # @return [ValueType] the kinds of statements that share connections; true means :reads
      def self.multiplex
        values = {"reads" => :reads, "all" => :all, **SWITCHES}
        new("one of :reads, :all, false", text: values.method(:[])) do |value|
          value = :reads if value == true
          [:reads, :all, false].include?(value) ? value : REFUSED
        end
      end

      # @return [ValueType] names of functions or settings; as text with commas between them
      def self.names
        new("an Array of names", text: ->(text) { text.split(",").map(&:strip) }) do |value|
          names = Array(value)
          (names.all? { |one| String === one || Symbol === one }) ? names.map(&:to_s).freeze : REFUSED
        end
      end

      # @return [ValueType] where connections lead to
      def self.target
        new("a URL, a Hash as PG.connect takes it, or something that returns a new PG::Connection") do |value|
          given = (String === value) ? !value.strip.empty? : (Hash === value || value.respond_to?(:call))
          given ? value : REFUSED
        end
      end

      # @return [ValueType] a String, or a Symbol
      def self.label
        new("a name") { |value| (String === value || Symbol === value) ? value.to_s : REFUSED }
      end

      # @return [ValueType] something that is called with a line
      def self.log
        new("something that can be called with a line") { |value| value.respond_to?(:call) ? value : REFUSED }
      end

      # @return [Numeric] a whole one as an Integer; or REFUSED
      def self.number(value, most = Float::INFINITY)
        return REFUSED unless value.is_a?(Numeric) && value.real? && value >= 0 && value <= most
        (value.is_a?(Float) && value.finite? && value == value.to_i) ? value.to_i : value
      end
      private_class_method :number
    end
  end
end
