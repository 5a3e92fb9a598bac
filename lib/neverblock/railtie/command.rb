# frozen_string_literal: true

require_relative "../cli/boot"
require_relative "../server/rack_handler"
require_relative "../server/restart_file"
require_relative "../server/cluster/launch"
require_relative "../server/cluster/handover"

module NeverBlock
  class Railtie
    # What `bin/rails server` runs: our Rack handler, which can start anew besides (tmp/restart.txt, as `bin/rails restart`
    # touches it, USR1 and USR2), and which becomes `neverblock serve` where there are to be workers.
    #
    #   command = Command.new(options)
    #   command.replace             # may not return
    #   command.run(app)            # serves
    # @api private
    class Command
      # What Rails calls a start after the first: it may find the file with its own process number.
      AGAIN = "--restart"

      # @param options [Hash] of Rails::Server
      # @param env [Hash]
      def initialize(options, env: ENV)
        @options = options
        @env = env
      end

      # Goes on in a process that has the stacks which Ruby gives fibers only when it boots, or as a cluster. Before the app
      # is loaded, so that it is loaded once.
      # @return [void]
      def replace
        Patches.apply # the app may freeze what they go into
        return tell_of_workers if @options[:daemonize]
        return serve if configuration.worker_count > 0
        CLI::Boot.new(vm: configuration[:stack_depth_vm], machine: configuration[:stack_depth_machine], small: false, command_line:).ensure
      rescue ConfigurationError
        nil # `run` tells it
      end

      # @param app [#call]
      # @return [Boolean] whether nothing was cut short
      def run(app, **)
        Server::RackHandler.reporting do
          server = Server.new(app, configuration)
          server.binder = Server::Cluster::Handover.received(@env)&.binder
          launch = Server::Cluster::Launch.new([*(command_line - [AGAIN]), AGAIN])
          restart_file = Server::RestartFile.new(configuration[:restart_file], launch.directory)
          Server::Runner.new(configuration, restart_file:, launch:).call { server }
        end
      end

      # @return [String] what Rails says that it boots
      def to_s = "NeverBlock"

      private

      # While there is a terminal.
      def tell_of_workers
        return if configuration.worker_count.zero?
        $stderr.write("neverblock: -d is one process: #{configuration.worker_count} workers (WEB_CONCURRENCY, or #{Server::Configuration::FILE}) " \
          "are for a server in the foreground. Leave -d out, under systemd or in a container\n")
      end

      def configuration
        @configuration ||= Server::RackHandler.configuration(@options).tap { |configuration| configuration.take_concurrency(@env) }
      end

      # The script was named from where the process began, and Rails has gone to the app's folder since.
      def command_line
        line = CLI::Boot.command_line
        return line.map { |word| (word == $PROGRAM_NAME) ? script : word } if line && File.basename(line.first).start_with?("ruby")
        # A title was set, as `bundle exec` does: Rails knows how it was called.
        [RbConfig.ruby, script, *@options[:restart_cmd].split.drop(1)]
      end

      def script = File.join(File.dirname(APP_PATH, 2), "bin", "rails")

      # With the address, the environment and the file of the process number that Rails was given.
      def serve
        address = Server::RackHandler.address(@options)
        arguments = ["-e", @options[:environment]]
        arguments.push("-b", address) if configuration.addresses.map(&:to_s) == [address] # else it finds those of its file
        arguments.push("--pid-file", @options[:pid]) if @options[:pid]
        Process.exec(RbConfig.ruby, Gem.bin_path("neverblock", "neverblock"), "serve", *arguments, @options[:config])
      end
    end
  end
end
