# frozen_string_literal: true

module NeverBlock
  # Checks of the arguments that the functions take. Each message names the option, the allowed values and the given one.
  # @api private
  module Options
    # @return [Object] the value
    def self.one_of(name, value, allowed)
      return value if allowed.include?(value)
      raise ArgumentError, "#{name}: must be one of #{allowed.map(&:inspect).join(", ")}, got #{value.inspect}"
    end

    # @return [Integer] the value
    def self.positive(name, value)
      return value if value.is_a?(Integer) && value.positive?
      raise ArgumentError, "#{name}: must be a positive Integer, got #{value.inspect}"
    end

    # @return [Numeric, nil] the value
    def self.seconds(name, value)
      return value if value.nil? || (value.is_a?(Numeric) && value.real? && value >= 0)
      raise ArgumentError, "#{name}: must be a number of seconds (0 or more), or nil for no limit, got #{value.inspect}"
    end

    # @return [#write] the value
    def self.writer(name, value)
      return value if value.respond_to?(:write)
      raise ArgumentError, "#{name}: must respond to write, as an IO or a StringIO does, got #{value.inspect}"
    end

    # @return [:raise, :report, #call]
    def self.on_error(value)
      return value if value == :raise || value == :report || value.respond_to?(:call)
      raise ArgumentError, "on_error: must be :raise, :report or respond to call, got #{value.inspect}"
    end
  end
end
