# frozen_string_literal: true

module NeverBlock
  class Server
    # What is wrong in a configuration, kept while the rest of it is read: who has three mistakes to correct is told of
    # all three.
    #
    #   mistakes = Mistakes.new
    #   mistakes.note { configuration.set(:workers, -2, at: "config/neverblock.rb:1") }
    #   mistakes.note { configuration.set(:bind, 3000, at: "config/neverblock.rb:2") }
    #   mistakes.tell    # raises a ConfigurationError whose message has a line for each
    # @api private
    class Mistakes
      # Where a message says that it was.
      PLACE = /\A.*?:\d+(?=: )/
      private_constant :PLACE

      def initialize
        @messages = []
      end

      # @return [Object, nil] the block's value, nil where it raises a ConfigurationError
      def note
        yield
      rescue ConfigurationError => error
        @messages << error.message
        nil
      end

      # One for each line of a file: what else is wrong there may come of it.
      # @return [void]
      # @raise [ConfigurationError] if there are any
      def tell
        messages = @messages.uniq { |message| message[PLACE] || message }
        raise ConfigurationError, messages.join("\n") if messages.any?
      end
    end
  end
end
