# frozen_string_literal: true

require_relative "error_collector"
require_relative "script"

module NeverBlock
  class Server
    # The context in which config/neverblock.rb is evaluated: plain Ruby in which each directive is a method. An invalid
    # directive does not stop the evaluation.
    #
    #   DSL.new(configuration, "config/neverblock.rb").read
    # @api private
    class DSL
      # @param configuration [Configuration] is filled
      # @param path [String]
      def initialize(configuration, path)
        @__configuration = configuration
        @__script = Script.new(path)
        @__errors = ErrorCollector.new
      end

      # @return [void]
      # @raise [ConfigurationError] with a line for each error
      def read
        scope = binding
        @__errors.collect do
          @__script.guard { scope.eval(@__script.text, @__script.path) }
          __refuse_assignments(scope)
        end
        @__errors.raise_if_any
      end

      Directives::ALL.each_value do |directive|
        define_method(directive.name) do |*values, **keywords, &block|
          @__errors.collect do
            @__configuration.apply(directive, [*values, *(block if directive.takes_block?)], keywords,
              at: @__script.place)
          end
          nil
        end
      end

      private

      # `max_in_flight = 5` assigns a local variable, which sets nothing here.
      def __refuse_assignments(scope)
        (scope.local_variables & Directives::ALL.keys).each do |name|
          value = scope.local_variable_get(name).inspect
          @__errors.collect do
            raise ConfigurationError, "#{@__script.path}: #{name} = #{value} assigns a local variable " \
              "and sets no directive. Write: #{name} #{value}"
          end
        end
      end

      # An unknown name without arguments may have been meant as a value, which would be missing now.
      def method_missing(name, *values, **keywords, &block)
        refuse = -> { @__configuration.unknown(name, @__script.place) }
        (values.empty? && keywords.empty? && block.nil?) ? refuse.call : @__errors.collect(&refuse)
      end

      def respond_to_missing?(*) = false
    end
  end
end
