# frozen_string_literal: true

require_relative "control_command"
require_relative "proxy_question"

module NeverBlock
  class CLI
    # neverblock proxy explain, purge and purge-tag: asks the running proxy on its control socket.
    #
    #   ProxyControl.new("explain", ["http://example.org/", "-H", "Accept: */*"]).call    # => 0
    # @api private
    class ProxyControl < ControlCommand
      COMMANDS = {
        "explain" => ["URL", "tell why a response is stored, shared or used, or not"],
        "purge" => ["URL", "remove the stored responses of a URL"],
        "purge-tag" => ["TAG", "remove the stored responses with a tag"]
      }.freeze
      EXPLAIN = "explain"
      SOCKET = "neverblock-proxy.sock"
      # What a request target can't have (RFC 3986, section 2).
      UNSAFE = /[^!-~]|#/
      private_constant :EXPLAIN, :SOCKET, :UNSAFE

      # The user's own folder for sockets.
      # @param env [Hash] the environment
      # @return [String, nil]
      def self.default_path(env)
        folder = env["XDG_RUNTIME_DIR"].to_s
        File.join(folder, SOCKET) if folder.start_with?("/") && File.directory?(folder) && File.owned?(folder)
      end

      # @param path [String]
      # @return [Boolean] whether another proxy is there
      def self.listens?(path)
        UNIXSocket.open(path) { true }
      rescue SystemCallError
        false
      end

      # @param command [String] one of COMMANDS
      # @param arguments [Array<String>]
      # @param out [IO]
      # @param env [Hash] the environment
      def initialize(command, arguments, out: $stdout, env: ENV)
        super(command, arguments, out:)
        @env = env
        @fields = []
      end

      # @return [Integer] the exit status
      # @raise [ConfigurationError]
      # @raise [UnreachableError]
      def call
        parse
        return OK if @answered
        status, body = ask("POST /app/#{@command}?#{@argument}")
        return tell(body.chomp) if status == 200
        raise UnreachableError, "proxy #{@command}: #{body.strip}"
      end

      private

      def parse
        word, says = COMMANDS.fetch(@command)
        parser = OptionParser.new("Usage: neverblock proxy #{@command} #{word} [options]\n\n  #{says}\n") do |options|
          @files.options(options)
          options.on("--control PATH", "the control socket, if no configuration names it") { |name| @path = name }
          fields(options) if @command == EXPLAIN
          options.on("-h", "--help", "this text") do
            @out.puts(options)
            @answered = true
          end
        end
        rest = parser.parse(@arguments)
        return if @answered
        @argument = ProxyQuestion.new(rest.first.to_s, @fields).to_s
        return if rest.size == 1 && !UNSAFE.match?(@argument)
        raise ConfigurationError, "proxy #{@command} takes one #{word}, percent-encoded, and got " \
          "#{rest.empty? ? "none" : rest.join(" ")}. neverblock proxy #{@command} --help lists the options"
      rescue OptionParser::ParseError => error
        raise ConfigurationError, "#{error.message}. neverblock proxy #{@command} --help lists the options", cause: nil
      end

      def fields(parser)
        parser.on("-H", "--header 'NAME: VALUE'", "a header of the request, as curl -H; may be repeated.",
          "curl itself sends Accept: */*") { |line| @fields << line }
      end

      def path = @path ||= configuration[:control] || ProxyControl.default_path(@env) || none

      def none
        raise ConfigurationError, "no control socket is known. Start the proxy with --control PATH, and name it here " \
          "too: neverblock proxy #{@command} --control PATH"
      end
    end
  end
end
