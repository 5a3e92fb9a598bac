# frozen_string_literal: true

module NeverBlock
  class Server
    module FromPuma
      # A directive as a file calls it.
      #
      # @!attribute [r] row
      #   @return [Row]
      # @!attribute [r] name
      #   @return [Symbol] which of its names was used
      # @!attribute [r] values
      #   @return [Array]
      # @!attribute [r] keywords
      #   @return [Hash{Symbol=>Object}]
      # @!attribute [r] block
      #   @return [Proc, nil]
      # @!attribute [r] place
      #   @return [String] as "config/puma.rb:12"
      # @api private
      Call = Data.define(:row, :name, :values, :keywords, :block, :place) do
        # @return [Object, nil] its first argument; keywords count as a Hash
        def first = (values.empty? && keywords.any?) ? keywords : values.first

        # Leaves the contents of Hashes out, which may be secret, such as a token.
        # @return [String]
        def to_s
          shown = (keywords.empty? ? values : [*values, keywords]).map { |value| Call.show(value) }.join(", ")
          "#{name}#{" #{shown}" unless shown.empty?}#{" { }" if block}"
        end
      end

      def Call.show(value)
        case value
        when String, Symbol, Numeric, true, false, nil then value.inspect
        when Hash then "{…}"
        else value.class.name
        end
      end
    end
  end
end
