# frozen_string_literal: true

require "optparse"
require_relative "../server"
require_relative "boot"
require_relative "files"
require_relative "first_process"
require_relative "rackup"
require_relative "../server/cluster/supervisor"
require_relative "../server/cluster/template"
require_relative "../server/cluster/trial"
require_relative "../server/crowd"
require_relative "../server/places"

module NeverBlock
  class CLI
    # neverblock serve: reads the configuration, loads the app, serves until a signal ends it.
    #
    #   Serve.new(["-b", "tcp://127.0.0.1:3000", "config.ru"]).call   # => 0
    # @api private
    class Serve
      # Descriptors in addition to connections: the app's files, databases, logs.
      SPARE_DESCRIPTORS = 1_024

      # @param arguments [Array<String>]
      # @param out [IO]
      # @param env [Hash] the environment
      def initialize(arguments, out: $stdout, env: ENV)
        @arguments = arguments
        @out = out
        @env = env
        @flags = []
        @texts = {}
        @files = Files.new
        @apart = false # it opens no sockets of its own
      end

      # @return [Integer] the exit status
      # @raise [ConfigurationError, AppError, BindError]
      def call
        trial = Server::Cluster::Trial.handed(@env)
        return try(trial) if trial
        return OK unless parse
        handed = Server::Cluster::TemplateProcess.handed(@env)
        return template(handed) if handed
        look
        FirstProcess.take_over
        return supervise(boot) if configuration.worker_count > 0
        boot.ensure
        prepare
        foreground(boot) ? OK : FAILED
      end

      # Checks the configuration without serving.
      # @yieldreturn [Serve] what is checked instead if the configuration has upstreams, and there is no app
      # @return [Integer] the exit status
      # @raise [ConfigurationError]
      def check
        @apart = true
        return OK unless parse("check-config")
        return yield.check if block_given? && @named.nil? && configuration[:upstream].any? && !rackup.there?
        look
        mistakes = Server::Places.new(configuration, rackup.home || Dir.pwd).mistakes
        raise ConfigurationError, mistakes.join("\n") if mistakes.any?
        @out.puts(configuration.notes, *Server::Crowd.note([configuration.worker_count, 1].max))
        @out.puts("the configuration is valid: #{configuration.addresses.join(" and ")}, #{rackup}")
        OK
      end

      # @return [Configuration] the file's settings, overridden by the command line
      # @raise [ConfigurationError]
      def configuration
        @configuration ||= Server::Configuration.new.tap do |configuration|
          @files.load(configuration)
          @flags.each { |name, value| configuration.set(name, value, at: "command line") }
          @texts.each { |name, text| configuration.read(name, text, at: "command line") }
          configuration.puma&.complain
          take_environment(configuration)
          configuration.check
        end
      end

      # @return [String, nil] the path of the rackup file; nil if there is nothing to serve
      # @raise [ConfigurationError]
      def parse(command = "serve")
        parser = options(command)
        rest = parser.parse(@arguments)
        return @out.puts(@answer) if @answer
        if rest.size > 1
          raise ConfigurationError, "#{rest.join(" ")}: one app is served at a time. " \
            "Usage: neverblock serve [options] [config.ru]"
        end
        @named = rest.first
        @named || Rackup::FILE
      rescue OptionParser::InvalidOption => error
        option = error.args.first
        raise ConfigurationError, "there is no option #{option}.#{near(parser, option)} #{see}", cause: nil
      rescue OptionParser::MissingArgument => error
        raise ConfigurationError, "#{error.args.first} needs a value. #{see}", cause: nil
      rescue OptionParser::ParseError => error
        raise ConfigurationError, "#{error.reason}: #{error.args.join(" ")}. #{see}", cause: nil
      end

      private

      # Errors of the configuration are reported before anything else.
      def look
        configuration
        rackup.check
      end

      def boot
        @boot ||= Boot.new(vm: configuration[:stack_depth_vm], machine: configuration[:stack_depth_machine],
          small: !rackup.rails?)
      end

      # Variables that hosting platforms set.
      def take_environment(configuration)
        port = @env["PORT"].to_s.strip
        unless configuration.set?(:bind) || port.empty?
          configuration.set(:bind, "tcp://0.0.0.0:#{port(port, "PORT in the environment")}")
        end
        configuration.take_concurrency(@env)
      end

      # Sets the environment for the app, sidecars and hooks. Their output is written at once, also to a pipe.
      def prepare
        @env["RACK_ENV"] = configuration.environment
        [$stdout, $stderr].each { |io| io.sync = true }
        Dir.chdir(rackup.home) if rackup.home
        raise_descriptor_limit
      end

      def supervise(boot)
        prepare
        systemd = Server::Systemd.new(@env)
        launch = launch_of(boot.command, {**boot.additions, **systemd.environment})
        supervisor = Server::Cluster::Supervisor.new(configuration, launch, systemd:)
        supervisor.run(Server::Cluster::Handover.received(@env)) ? OK : FAILED
      end

      # Inherited sockets are taken before the app is loaded, so that programs which the app starts do not inherit them.
      def foreground(boot)
        systemd = Server::Systemd.new(@env)
        handover = Server::Cluster::Handover.received(@env)
        binder = handover&.binder || Server::Binder.for(configuration, given: systemd.sockets)
        launch = launch_of(boot.command, systemd.environment)
        restart_file = Server::RestartFile.new(configuration[:restart_file], launch.directory)
        runner = Server::Runner.new(configuration, systemd:, restart_file:, launch:, succeeds: !handover.nil?)
        runner.call { Server.new(rackup.load, configuration).tap { |server| server.binder = binder } }
      end

      def launch_of(command, environment)
        directory = File.expand_path(configuration[:directory] || here)
        Server::Cluster::Launch.new(command, environment:, directory:)
      end

      # The directory as the shell names it, with links.
      def here
        named = @env["PWD"]
        (named && File.identical?(named, Dir.pwd)) ? named : Dir.pwd
      end

      # The program that has started this process wants to know whether a next one could start.
      def try(trial)
        @apart = true
        good = Server::Cluster::Trial.tell(trial) do |held|
          parse
          look
          rackup.rehearse
          Server::Places.new(configuration, rackup.home || Dir.pwd).mistakes_of_next(held)
        end
        good ? OK : FAILED
      end

      # A template reports to the supervisor only, errors of the configuration included.
      def template(handed)
        @apart = true
        channel = Server::Cluster::Channel.inherited(handed[:channel])
        begin
          look
          boot.ensure
          prepare
          Server::Systemd.new(@env)
        rescue *AppError::CAUSES => error
          channel.send({event: "failed", message: (Error === error) ? error.message : Server::LogText.error(error)})
          raise
        end
        sockets = Server::Cluster::Sockets.new(handed[:sockets])
        Server::Cluster::Template.new(channel, sockets, configuration) { rackup.load }.run ? OK : FAILED
      end

      def see = "neverblock serve --help lists the options"

      def rackup = @rackup ||= Rackup.new(@named, configuration.puma)

      def near(parser, option)
        return unless defined?(DidYouMean::SpellChecker)
        found = DidYouMean::SpellChecker.new(dictionary: parser.candidate("--")).correct(option).first
        " Did you mean #{found}?" if found
      end

      def options(command)
        OptionParser.new("Usage: neverblock #{command} [options] [config.ru]", 26) do |parser|
          parser.separator("")
          flag(parser, :bind, "-b", "--bind URI", "listen on tcp://HOST:PORT or unix:///PATH;", "may be repeated")
          parser.on("-p", "--port PORT", "the same as -b tcp://127.0.0.1:PORT") do |number|
            @flags << [:bind, "tcp://127.0.0.1:#{port(number, "--port")}"]
          end
          @files.options(parser)
          parser.on("-w", "--workers NUMBER", "worker processes; auto: one per processor (0: none)") do |text|
            @texts[:workers] = text
          end
          flag(parser, :pid_file, "-P", "--pid-file FILE", "a file with this process's number while it runs")
          flag(parser, :environment, "-e", "--environment NAME", "RACK_ENV for the app (development)")
          own_options(parser)
          parser.separator("")
          parser.on("-h", "--help", "this text") { @answer = "#{parser}\n#{footer}" }
          parser.on("-v", "--version", "the version") { @answer = "neverblock #{VERSION} (Ruby #{RUBY_VERSION})" }
        end
      end

      # Further options of another command.
      def own_options(_parser) = nil

      def flag(parser, directive, *description) = parser.on(*description) { |value| @flags << [directive, value] }

      def footer
        <<~TEXT.chomp
          Without an address it listens on tcp://0.0.0.0:$PORT if the environment has a
          PORT, else on #{usual_address}. TERM and INT end it when running requests
          have ended, a second one cancels them, a third ends it at once.
        TEXT
      end

      def usual_address = Server::Configuration::DEFAULT_ADDRESS

      def port(number, place)
        return number if number.match?(/\A\d{1,5}\z/) && number.to_i < 65_536
        raise ConfigurationError, "#{place}: #{number.inspect} is not a port. " \
          "Give a number from 0 (any free port) to 65535"
      end

      # Each connection takes a descriptor. If the hard limit is lower, EMFILE is handled and logged when it comes.
      def raise_descriptor_limit
        soft, hard = Process.getrlimit(:NOFILE)
        wanted = [configuration[:max_connections] + SPARE_DESCRIPTORS, hard].min
        Process.setrlimit(:NOFILE, wanted, hard) if soft < wanted
      end
    end
  end
end
