# frozen_string_literal: true

module NeverBlock
  class Proxy
    # How long each phase of an exchange may take, in seconds; nil: no limit.
    #
    #   timeouts = Timeouts.new(connect: 2, total: 30)
    #   timeouts.first_byte                          # => 60
    #   timeouts.with(first_byte: 300).first_byte    # => 300
    #
    # @!attribute [r] connect
    #   @return [Numeric, nil] for a new connection: the name's look-up, all addresses and TLS together
    # @!attribute [r] first_byte
    #   @return [Numeric, nil] from the end of the request to the whole head of the response; interim ones don't count
    # @!attribute [r] idle
    #   @return [Numeric, nil] from one read, or write, to the next
    # @!attribute [r] total
    #   @return [Numeric, nil] from the beginning to the last byte of the response
    Timeouts = Data.define(:connect, :first_byte, :idle, :total) do
      # @param value [Timeouts, Hash{Symbol=>Numeric,nil}] a Hash has what differs from the defaults
      # @return [Timeouts]
      # @raise [ConfigurationError]
      def self.of(value)
        return value if self === value
        unless Hash === value
          raise ConfigurationError, "timeouts: #{value.inspect} is not a Hash, as in {connect: 2, first_byte: 60}"
        end
        unknown = value.keys.find { |name| !members.include?(name) } or return new(**value)
        raise ConfigurationError, "timeouts: has no option #{unknown.inspect}. Its options are #{members.join(", ")}"
      end

      # @param connect [Numeric, nil] seconds
      # @param first_byte [Numeric, nil] seconds
      # @param idle [Numeric, nil] seconds
      # @param total [Numeric, nil] seconds
      # @raise [ConfigurationError]
      def initialize(connect: 5, first_byte: 60, idle: 60, total: nil)
        type = ValueType.seconds.optional
        values = {connect:, first_byte:, idle:, total:}
        super(**values.to_h { |name, value| [name, type.setting(value) { "timeouts: #{name}:" }] })
      end
    end
  end
end
