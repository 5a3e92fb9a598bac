# frozen_string_literal: true

require_relative "app_error"

module NeverBlock
  class Server
    # A configuration file as a program: its text, and the line that is being evaluated.
    #
    #   script = Script.new("config/neverblock.rb")
    #   script.guard { words.instance_eval(script.text, script.path) }
    # @api private
    class Script
      # @return [String]
      attr_reader :path

      # @param path [String]
      def initialize(path)
        @path = path
      end

      # @return [String]
      # @raise [ConfigurationError] if it can't be read
      def text
        File.read(@path, encoding: Encoding::UTF_8)
      rescue SystemCallError => error
        raise ConfigurationError, "#{@path} can't be read: #{error.message[/[^@]+/].strip}. Name an existing file"
      end

      # @return [String] file and line of the file that led to this call, as "config/neverblock.rb:12"
      def place = at(caller_locations(2))

      # Turns what the block raises into a ConfigurationError with file and line.
      # @param remedies [Hash{Symbol=>String}] by undefined names, and by gems whose files can't be loaded
      # @raise [ConfigurationError]
      def guard(**remedies)
        yield
      rescue ConfigurationError
        raise
      rescue *AppError::CAUSES => error
        place = "#{at(error.backtrace_locations || [])}: " unless error.message.start_with?(@path)
        remedy = remedies[missing(error)]
        raise ConfigurationError, "#{place}#{error.message.strip} (#{error.class})#{". #{remedy}" if remedy}"
      end

      private

      # @return [Symbol, nil] the name or gem that the error is about
      def missing(error)
        case error
        when NameError then error.name
        when LoadError then error.path&.slice(/\A\w+/)&.to_sym
        end
      end

      def at(locations) = [@path, locations.find { |one| one.path == @path }&.lineno].compact.join(":")
    end
  end
end
