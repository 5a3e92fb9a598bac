# frozen_string_literal: true

require "json"
require "optparse"
require "socket"
require_relative "../server"
require_relative "files"

module NeverBlock
  class CLI
    # neverblock stop, restart, reload and status: asks the server whose control socket the configuration names.
    #
    #   Order.new("status", []).call   # => 0
    # @api private
    class Order
      # Seconds that an answer may take.
      LIMIT = 10

      COMMANDS = {
        "stop" => "end the server when running requests have ended",
        "restart" => "replace the server and its workers, without losing a request",
        "reload" => "load the app anew and replace the workers one by one",
        "status" => "tell what the server and its workers are doing"
      }.freeze

      # @param command [String] one of COMMANDS
      # @param arguments [Array<String>]
      # @param out [IO]
      def initialize(command, arguments, out: $stdout)
        @command = command
        @arguments = arguments
        @out = out
        @files = Files.new
      end

      # @return [Integer] the exit status
      # @raise [ConfigurationError]
      # @raise [UnreachableError]
      def call
        parse
        return OK if @answered
        status, body = ask
        raise UnreachableError, "#{path} answered #{status}: #{body.strip}" unless status.between?(200, 299)
        @out.puts((@command == "status") ? shown(body) : "#{@command}: #{body.strip}; the error log tells how it ends")
        OK
      end

      private

      def parse
        parser = OptionParser.new("Usage: neverblock #{@command} [options]") do |options|
          @files.options(options)
          options.on("--control PATH", "its control socket, where no configuration names it") { |name| @path = name }
          options.on("--json", "the numbers as JSON") { @json = true } if @command == "status"
          options.on("-h", "--help", "this text") do
            @out.puts(options)
            @answered = true
          end
        end
        rest = parser.parse(@arguments)
        raise ConfigurationError, "#{rest.join(" ")}: #{@command} takes options alone. neverblock #{@command} --help lists them" if rest.any?
      rescue OptionParser::ParseError => error
        raise ConfigurationError, "#{error.message}. neverblock #{@command} --help lists the options", cause: nil
      end

      def path
        @path ||= configuration[:control] ||
          raise(ConfigurationError, "no control socket is named. Write control \"tmp/neverblock.sock\" into #{Server::Configuration::FILE}, " \
            "or tell where it is: neverblock #{@command} --control PATH")
      end

      def configuration
        Server::Configuration.new.tap { |configuration| @files.load(configuration) }
      end

      def ask
        socket = UNIXSocket.new(path)
        socket.timeout = LIMIT
        socket << "#{(@command == "status") ? "GET /stats" : "POST /#{@command}"} HTTP/1.0\r\nContent-Length: 0\r\n\r\n"
        head, body = socket.read.split("\r\n\r\n", 2)
        [head.to_s[/\AHTTP\S+ (\d+)/, 1].to_i, body.to_s]
      rescue SystemCallError, IOError => error
        raise UnreachableError, "no server answers at #{path} (#{error.message}). Is it running, and are you its user?", cause: nil
      ensure
        socket&.close
      end

      def shown(body)
        return body if @json
        stats = JSON.parse(body, symbolize_names: true)
        head = "#{stats[:state]}, pid #{stats[:pid]}, version #{stats[:version]}, at #{stats[:addresses].join(" and ")}"
        rows = stats[:workers].map do |worker|
          numbers = worker[:stats]
          format("  %-9s %-8s %-9s %8.0f s %6d requests %6d waiting %6d connections %10d answered", "worker #{worker[:number]}", worker[:pid],
            worker[:state], worker[:age], numbers[:in_flight].to_i, numbers.values_at(:ready, :queued).sum(&:to_i), *numbers.values_at(:connections, :answered).map(&:to_i))
        end
        [head, *rows].join("\n")
      end
    end
  end
end
