# frozen_string_literal: true

module NeverBlock
  # Checks of the values that the words take: each names the value and what is allowed.
  # @api private
  module Options
    # @return [Object] the value
    def self.one_of(name, value, allowed)
      return value if allowed.include?(value)
      raise ArgumentError, "#{name}: #{value.inspect} is not one of #{allowed.map(&:inspect).join(", ")}"
    end

    # @return [Integer] the value
    def self.positive(name, value)
      return value if value.is_a?(Integer) && value.positive?
      raise ArgumentError, "#{name}: #{value.inspect} is no positive Integer"
    end

    # @return [Numeric, nil] the value
    def self.seconds(name, value)
      return value if value.nil? || (value.is_a?(Numeric) && value.real? && value >= 0)
      raise ArgumentError, "#{name}: #{value.inspect} is no number of seconds (0 or more, or nil for no limit)"
    end

    # @return [#write] the value
    def self.writer(name, value)
      return value if value.respond_to?(:write)
      raise ArgumentError, "#{name}: #{value.inspect} has no write. Give an IO, or a StringIO"
    end

    # @return [:raise, :report, #call]
    def self.on_error(value)
      return value if value == :raise || value == :report || value.respond_to?(:call)
      raise ArgumentError, "on_error: #{value.inspect} is not :raise, :report or something callable"
    end
  end
end
