# frozen_string_literal: true

require_relative "value_type"

module NeverBlock
  # Checks the arguments of the functions of {NeverBlock} by {ValueType}: a message has the argument's name,
  # its value and what is allowed.
  #
  #   Options.positive("limit", 0)   # raises "limit: 0 is not a whole number, 1 or more"
  # @api private
  module Options
    on_error = ValueType.new("one of :raise, :report, or something that can be called") do |value|
      (value == :raise || value == :report || value.respond_to?(:call)) ? value : ValueType::REFUSED
    end

    # Loops of other Ractors check by them too.
    POSITIVE, TIME_LIMIT, WRITER, EXIT, ON_ERROR = Ractor.make_shareable(
      [ValueType.count(least: 1, most: Float::INFINITY), ValueType.time_limit, ValueType.writer,
        ValueType.one_of(:wait, :cancel), on_error]
    )
    private_constant :POSITIVE, :TIME_LIMIT, :WRITER, :EXIT, :ON_ERROR

    class << self
      # @return [Integer] the value
      # @raise [ArgumentError]
      def positive(name, value) = POSITIVE.check(value) { "#{name}:" }

      # @return [Numeric, nil] the value
      # @raise [ArgumentError]
      def seconds(name, value) = TIME_LIMIT.check(value) { "#{name}:" }

      # @return [#write] the value
      # @raise [ArgumentError]
      def writer(name, value) = WRITER.check(value) { "#{name}:" }

      # @return [:wait, :cancel] the value
      # @raise [ArgumentError]
      def exit(value) = EXIT.check(value) { "exit:" }

      # @return [:raise, :report, #call] the value
      # @raise [ArgumentError]
      def on_error(value) = ON_ERROR.check(value) { "on_error:" }
    end
  end
end
