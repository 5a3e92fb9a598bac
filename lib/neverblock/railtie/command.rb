# frozen_string_literal: true

require_relative "../cli/boot"
require_relative "../server/rack_handler"

module NeverBlock
  class Railtie
    # The process of `bin/rails server`, which becomes another program where it has to be: itself once more, with the stacks
    # that Ruby gives fibers only when it boots, or `neverblock serve`, where the configuration asks for workers.
    #
    #   Command.new(options).replace     # may not return
    # @api private
    class Command
      # @param options [Hash] of Rails::Server
      def initialize(options)
        @options = options
      end

      # @return [void]
      def replace
        return if @options[:daemonize]
        configuration = Server::RackHandler.configuration(@options)
        return serve if configuration.worker_count > 0
        boot = CLI::Boot.new(vm: configuration[:stack_depth_vm], machine: configuration[:stack_depth_machine], command_line:)
        boot.ensure
      rescue ConfigurationError
        nil # the handler tells it, as rackup would
      end

      private

      # The script was named from where the process began, and Rails has gone to the app's folder since.
      def command_line
        line = CLI::Boot.command_line
        return line.map { |word| (word == $PROGRAM_NAME) ? script : word } if line && File.basename(line.first).start_with?("ruby")
        # A title was set, as `bundle exec` does: Rails knows how it was called.
        ["ruby", script, *@options[:restart_cmd].split.drop(1) - ["--restart"]]
      end

      def script = File.join(File.dirname(APP_PATH, 2), "bin", "rails")

      # With the address, the environment and the file of the process number that Rails was given.
      def serve
        host = @options[:Host].to_s
        host = "[#{host}]" if host.include?(":")
        named = Array(@options[:user_supplied_options])
        arguments = ["-e", @options[:environment]]
        arguments.push("-b", "tcp://#{host}:#{@options[:Port]}")
        arguments.push("--pid-file", @options[:pid]) if @options[:pid] && named.include?(:pid)
        Process.exec(RbConfig.ruby, Gem.bin_path("neverblock", "neverblock"), "serve", *arguments, @options[:config])
      end
    end
  end
end
