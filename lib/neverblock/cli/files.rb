# frozen_string_literal: true

module NeverBlock
  class CLI
    # The configuration files that a command line names; later ones override earlier ones. Without any, the default
    # file, if it exists.
    #
    #   files = Files.new
    #   OptionParser.new { |parser| files.options(parser) }.parse!(%w[-C config/puma.rb])
    #   files.load(Server::Configuration.new)
    # @api private
    class Files
      OURS = Server::Configuration::FILE
      # Puma's default file. It is read on request only.
      PUMA = "config/puma.rb"

      def initialize
        @named = []
      end

      # @param parser [OptionParser]
      # @return [void]
      def options(parser)
        parser.on("-C", "--config FILE", "directives (#{OURS}, if it exists);",
          "of several files later ones win") do |path|
          @named << [path, {}]
        end
        parser.on("--puma FILE", "a Puma configuration; -C recognises puma.rb by its name") do |path|
          @named << [path, {puma: true}]
        end
      end

      # @param configuration [Server::Configuration] is filled
      # @return [void]
      # @raise [ConfigurationError]
      def load(configuration)
        files = (@named.empty? && File.exist?(OURS)) ? [[OURS, {}]] : @named
        if files.empty? && File.exist?(PUMA)
          configuration.notes << "#{PUMA} is not read: neverblock serve -C #{PUMA} reads it"
        end
        files.each { |path, kind| configuration.load(path, **kind) }
      end
    end
  end
end
