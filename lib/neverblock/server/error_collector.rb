# frozen_string_literal: true

module NeverBlock
  class Server
    # Collects the errors of a configuration while the rest of it is read, so that one run reports all of them.
    #
    #   errors = ErrorCollector.new
    #   errors.collect { configuration.set(:workers, -2, at: "config/neverblock.rb:1") }
    #   errors.collect { configuration.set(:bind, 3000, at: "config/neverblock.rb:2") }
    #   errors.raise_if_any    # raises a ConfigurationError whose message has a line for each
    # @api private
    class ErrorCollector
      # The place that a message begins with.
      PLACE = /\A.*?:\d+(?=: )/
      private_constant :PLACE

      def initialize
        @messages = []
      end

      # Runs the block and keeps the message of a ConfigurationError.
      # @return [Object, nil] the block's value; nil after a ConfigurationError
      def collect
        yield
      rescue ConfigurationError => error
        @messages << error.message
        nil
      end

      # Reports the first error of each line: later ones on the same line may follow from it.
      # @return [void]
      # @raise [ConfigurationError] if there are any
      def raise_if_any
        messages = @messages.uniq { |message| message[PLACE] || message }
        raise ConfigurationError, messages.join("\n") if messages.any?
      end
    end
  end
end
