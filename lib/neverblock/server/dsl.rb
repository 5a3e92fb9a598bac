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
        instance_eval(source, @__path)
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
