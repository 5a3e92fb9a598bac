# frozen_string_literal: true

require_relative "script"

module NeverBlock
  class Server
    # What config/neverblock.rb is run in: plain Ruby in which each directive is a method.
    #
    #   DSL.new(configuration, "config/neverblock.rb").read
    # @api private
    class DSL
      # @param configuration [Configuration] is filled
      # @param path [String]
      def initialize(configuration, path)
        @__configuration = configuration
        @__script = Script.new(path)
      end

      # @return [void]
      # @raise [ConfigurationError]
      def read
        scope = binding
        @__script.guard { scope.eval(@__script.text, @__script.path) }
        __refuse_assignments(scope)
      end

      Directives::ALL.each_value do |directive|
        define_method(directive.name) do |*values, **keywords, &block|
          @__configuration.apply(directive, [*values, *(block if directive.takes_block?)], keywords, at: @__script.place)
          nil
        end
      end

      private

      # To Ruby `max_in_flight = 5` is a variable's, and says nothing to us.
      def __refuse_assignments(scope)
        name = (scope.local_variables & Directives::ALL.keys).first or return
        value = scope.local_variable_get(name)
        raise ConfigurationError, "#{@__script.path}: #{name} = #{value.inspect} sets a variable of Ruby's, and no directive. Write: #{name} #{value.inspect}"
      end

      def method_missing(name, ...)
        @__configuration.unknown(name, @__script.place)
      end

      def respond_to_missing?(*) = false
    end
  end
end
