# frozen_string_literal: true

# The command line:
#
#     cli.rb                  the commands
#     cli/serve.rb            serve, check-config
#     cli/control_command.rb  stop, restart, reload, reopen, status
#     cli/cache_command.rb    cache report
#     cli/proxy_command.rb    proxy; cli/proxy_app.rb: what it serves; cli/proxy_log.rb: its log
#     cli/proxy_control.rb    proxy explain, purge; cli/proxy_commands.rb: their end in the server;
#                             cli/proxy_question.rb: the request that explain is about
#     cli/files.rb            the configuration files that -C names
#     cli/rackup.rb           the app to serve
#     cli/boot.rb             stack sizes: the process executes itself once more
#     cli/first_process.rb    process 1 of a container

require_relative "version"
require_relative "errors"
require_relative "server/app_error"

module NeverBlock
  # The command `neverblock`.
  #
  #   exit NeverBlock::CLI.new(ARGV).call
  class CLI
    # Exit statuses. As in sysexits(3), 64 is an invalid command line or configuration.
    OK, FAILED, USAGE = 0, 1, 64

    # The app can't be loaded. The message contains the app's own exception.
    AppError = Server::AppError

    # The server that a command is for can't be reached.
    class UnreachableError < StandardError
      include Error
    end

    COMMANDS = {
      "serve" => "serve a Rack app",
      "stop" => "stop a server",
      "restart" => "replace a server without losing a request",
      "reload" => "reload a server's app",
      "reopen" => "reopen a server's logs",
      "status" => "show what a server does",
      "check-config" => "check a configuration",
      "cache" => "report from logs whether a cache would help",
      "proxy" => "serve other servers' responses, with a cache"
    }.freeze

    # @param arguments [Array<String>]
    # @param out [IO]
    # @param err [IO]
    # @param env [Hash] the environment
    def initialize(arguments, out: $stdout, err: $stderr, env: ENV)
      @arguments = arguments
      @out = out
      @err = err
      @env = env
    end

    # @return [Integer] the exit status
    def call
      first, *rest = @arguments
      case first
      when "serve" then Serve.new(rest, out: @out, env: @env).call
      when "check-config"
        Serve.new(rest, out: @out, env: @env).check { ProxyCommand.new(rest, out: @out, env: @env) }
      when "proxy" then ProxyCommand.of(rest, out: @out, env: @env).call
      when "cache" then CacheCommand.new(rest, out: @out, err: @err).call
      when *ControlCommand::COMMANDS.keys then ControlCommand.new(first, rest, out: @out).call
      when "-h", "--help", "help" then tell(help)
      when "-v", "--version", "version" then tell("neverblock #{VERSION} (Ruby #{RUBY_VERSION})")
      when nil then raise ConfigurationError, "no command given\n\n#{help}"
      else raise ConfigurationError, unknown(first)
      end
    rescue ConfigurationError => error
      complain(error, USAGE)
    rescue Error => error
      complain(error, FAILED)
    end

    private

    def tell(text)
      @out.puts(text)
      OK
    end

    def complain(error, status)
      @err.puts("neverblock: #{error.message}")
      status
    end

    def unknown(word)
      near = DidYouMean::SpellChecker.new(dictionary: COMMANDS.keys).correct(word).first if defined?(DidYouMean)
      "there is no command #{word}.#{" Did you mean #{near}?" if near} neverblock --help lists them"
    end

    def help
      <<~TEXT.chomp
        Usage: neverblock COMMAND [options]

        Commands:
        #{COMMANDS.map { |name, says| format("  %-13s %s", name, says) }.join("\n")}

        neverblock COMMAND --help describes a command; --version prints the version.
      TEXT
    end
  end
end

require_relative "cli/serve"
require_relative "cli/control_command"
require_relative "cli/cache_command"
require_relative "cli/proxy_command"
