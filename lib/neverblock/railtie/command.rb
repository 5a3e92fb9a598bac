# frozen_string_literal: true

require_relative "../cli/boot"
require_relative "../server/rack_handler"
require_relative "../server/restart_file"
require_relative "../server/cluster/launch"
require_relative "../server/cluster/handover"
require_relative "../server/cluster/trial"
require_relative "../server/places"

module NeverBlock
  class Railtie
    # The server command of `bin/rails server`. It runs our Rack handler with restarts (tmp/restart.txt, which
    # `bin/rails restart` touches; USR1 and USR2), or replaces itself by `neverblock serve` if there should be workers.
    #
    #   command = Command.new(options)
    #   command.replace             # may not return
    #   command.run(app)            # serves
    # @api private
    class Command
      # Rails' name for a restart. Such a start may find a process file with its own number.
      AGAIN = "--restart"

      # @param options [Hash] the options of Rails::Server
      # @param env [Hash]
      def initialize(options, env: ENV)
        @options = options
        @env = env
      end

      # Replaces this process before the app is loaded, so that the app is loaded once. The new process has the fiber
      # stacks of `stack_depth`, which Ruby sets at boot only, or is a cluster.
      # @return [void]
      def replace
        try
        Patches.apply # the app may freeze the patched classes
        return tell_of_workers if @options[:daemonize]
        return serve if configuration.worker_count > 0
        CLI::Boot.new(vm: configuration[:stack_depth_vm], machine: configuration[:stack_depth_machine], small: false,
          command_line:).ensure
      rescue ConfigurationError
        nil # `run` reports it
      end

      # @param app [#call]
      # @return [Boolean] false if a request was cut short
      def run(app, **)
        Server::RackHandler.reporting do
          server = Server.new(app, configuration)
          server.binder = Server::Cluster::Handover.received(@env)&.binder
          command = command_line - [AGAIN]
          launch = Server::Cluster::Launch.new([*command, AGAIN])
          # At AGAIN Rails removes its process file, which is still needed then.
          trial = Server::Cluster::Trial.new(Server::Cluster::Launch.new(command), configuration[:boot_timeout])
          restart_file = Server::RestartFile.new(configuration[:restart_file], launch.directory)
          Server::Runner.new(configuration, restart_file:, launch:, trial:).call { server }
        end
      end

      # @return [String] the server's name in Rails' boot message
      def to_s = "NeverBlock"

      private

      # The program that has started this process wants to know whether a next one could start. The app is not loaded
      # for that.
      def try
        trial = Server::Cluster::Trial.handed(@env) or return
        good = Server::Cluster::Trial.tell(trial) do |held|
          Server::Places.new(configuration.check).mistakes_of_next(held)
        end
        exit!(good)
      end

      # Runs while there still is a terminal.
      def tell_of_workers
        return if configuration.worker_count.zero?
        $stderr.write("neverblock: -d starts one process, but #{configuration.worker_count} workers are configured " \
          "(WEB_CONCURRENCY, or #{Server::Configuration::FILE}), which need a server in the foreground. " \
          "Leave -d out, under systemd or in a container\n")
      end

      def configuration
        @configuration ||= Server::RackHandler.configuration(@options).tap do |configuration|
          configuration.take_concurrency(@env)
        end
      end

      # The path of the script is relative to the folder that the process began in; Rails
      # has changed to the app's folder.
      def command_line
        line = CLI::Boot.command_line
        if line && File.basename(line.first).start_with?("ruby")
          return line.map { |word| (word == $PROGRAM_NAME) ? script : word }
        end
        # A process title was set, as by `bundle exec`. Rails knows the command line.
        [RbConfig.ruby, script, *@options[:restart_cmd].split.drop(1)]
      end

      def script = File.join(File.dirname(APP_PATH, 2), "bin", "rails")

      # Passes on the address, the environment and the process file that Rails was given.
      def serve
        address = Server::RackHandler.address(@options)
        arguments = ["-e", @options[:environment]]
        # Otherwise the file's addresses apply.
        arguments.push("-b", address) if configuration.addresses.map(&:to_s) == [address]
        arguments.push("--pid-file", @options[:pid]) if @options[:pid]
        Process.exec(RbConfig.ruby, Gem.bin_path("neverblock", "neverblock"), "serve", *arguments, @options[:config])
      end
    end
  end
end
