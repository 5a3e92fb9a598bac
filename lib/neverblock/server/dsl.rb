# frozen_string_literal: true

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
        @__path = path
      end

      # @return [void]
      # @raise [ConfigurationError]
      def read
        scope = binding
        scope.eval(source, @__path)
        __refuse_assignments(scope)
      rescue ConfigurationError
        raise
      rescue ScriptError, StandardError => error
        line = error.backtrace_locations&.find { |location| location.path == @__path }&.lineno
        place = "#{[@__path, line].compact.join(":")}: " unless error.message.start_with?(@__path)
        raise ConfigurationError, "#{place}#{error.message.strip} (#{error.class})"
      end

      Directives::ALL.each_value do |directive|
        define_method(directive.name) do |*values, **keywords, &block|
          @__configuration.apply(directive, [*values, *(block if directive.takes_block?)], keywords, at: __line)
          nil
        end
      end

      private

      # To Ruby `max_in_flight = 5` is a variable's, and says nothing to us.
      def __refuse_assignments(scope)
        name = (scope.local_variables & Directives::ALL.keys).first or return
        value = scope.local_variable_get(name)
        raise ConfigurationError, "#{@__path}: #{name} = #{value.inspect} sets a variable of Ruby's, and no directive. Write: #{name} #{value.inspect}"
      end

      def source
        File.read(@__path, encoding: Encoding::UTF_8)
      rescue SystemCallError => error
        raise ConfigurationError, "#{@__path} can't be read: #{error.message[/[^@]+/].strip}. Name a file that is there"
      end

      def method_missing(name, ...)
        @__configuration.unknown(name, __line)
      end

      def respond_to_missing?(*) = false

      # The place in the file that we were called from.
      def __line
        location = caller_locations(2).find { |one| one.path == @__path }
        [@__path, location&.lineno].compact.join(":")
      end
    end
  end
end
