# frozen_string_literal: true

module NeverBlock
  class Server
    module FromPuma
      # Stands for a variable of Puma's own class, such as @options, in its configuration. Any use of it ends the start
      # with a remedy.
      #
      #   @options = OwnVariable.new("@options") { script.place }
      #   @options[:pidfile] = false     # raises ConfigurationError
      # @api private
      class OwnVariable < BasicObject
        # @param name [String]
        # @yieldreturn [String] file and line of its use
        def initialize(name, &place)
          @name = name
          @place = place
        end

        private

        def method_missing(*)
          ::Kernel.raise ::NeverBlock::ConfigurationError,
            "#{@place.call}: #{@name} belongs to Puma's own code, and does not exist here. Write the word for it, " \
            "such as pidfile (docs/from-puma.md has them all), and for what only Puma needs: … if defined?(Puma)"
        end

        def respond_to_missing?(*) = true
      end
    end
  end
end
