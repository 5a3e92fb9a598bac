# frozen_string_literal: true

require_relative "../cache"
require_relative "../proxy"
require_relative "proxy_app"
require_relative "proxy_control"
require_relative "serve"

module NeverBlock
  class CLI
    # neverblock proxy: serves the responses of upstreams. It is `neverblock serve` with another app and other defaults.
    #
    #   ProxyCommand.of(["--upstream", "http://127.0.0.1:3000"]).call    # => 0
    # @api private
    class ProxyCommand < Serve
      USAGE = "Usage: neverblock proxy --upstream URL [options]\n       neverblock proxy explain URL | purge URL | " \
        "purge-tag TAG [options]\n       neverblock proxy check-config [options]"
      # Checks the configuration, with the options of a proxy.
      CHECK = "check-config"
      COLLAPSE = {nil => true, "on" => true, "off" => false, "same-url" => :same_url}.freeze
      # Not that of a server, which may be the upstream.
      ADDRESS = "tcp://127.0.0.1:8000"
      # What differs from a server's defaults: what comes is passed on as it comes, and not for a client that has left.
      DEFAULTS = {bind: ADDRESS, request_body: :stream, cancel_on_disconnect: true, early_hints: true}.freeze
      # Neither an option nor a file.
      WORD = /\A[a-z][a-z-]*\z/
      PHASES = /\A(connect|first_byte|idle|total)=(.+)\z/
      private_constant :USAGE, :CHECK, :COLLAPSE, :ADDRESS, :DEFAULTS, :PHASES, :WORD

      # @param arguments [Array<String>] after "proxy"
      # @return [#call]
      def self.of(arguments, out: $stdout, env: ENV)
        word, *rest = arguments
        return new(rest, out:, env:).method(:check) if word == CHECK
        return ProxyControl.new(word, rest, out:, env:) if ProxyControl::COMMANDS.key?(word)
        refuse_word(word)
        new(arguments, out:, env:)
      end

      def self.refuse_word(word)
        return unless WORD.match?(word.to_s)
        raise ConfigurationError, "neverblock proxy has no command #{word}. " \
          "Its commands are #{[*ProxyControl::COMMANDS.keys, CHECK].join(", ")}"
      end
      private_class_method :refuse_word

      # @param arguments [Array<String>]
      # @param out [IO]
      # @param env [Hash] the environment
      def initialize(arguments, out: $stdout, env: ENV)
        super
        @proxy = {}
        @proxy_options = {}
      end

      # @return [Server::Configuration]
      # @raise [ConfigurationError]
      def configuration
        @configured ||= super.tap do |configuration|
          @proxy[:options] = {**configuration[:proxy_options], **@proxy_options} unless @proxy_options.empty?
          configuration.set(:proxy, @proxy) unless @proxy.empty?
          DEFAULTS.each { |name, value| configuration.set(name, value) unless configuration.set?(name) }
          control = ProxyControl.default_path(@env) unless configuration.set?(:control)
          configuration.set(:control, control) if control && free?(control)
        end
      end

      # @return [true, nil] nil: the question is answered
      # @raise [ConfigurationError]
      def parse(command = "proxy")
        super or return
        return true unless @named
        if COLLAPSE.key?(@named) && @proxy.key?(:collapse)
          raise ConfigurationError, "--collapse #{@named}: write --collapse=#{@named}"
        end
        raise ConfigurationError, "#{@named}: neverblock proxy serves upstreams, and no file. " \
          "For example: neverblock proxy --upstream http://127.0.0.1:3000"
      end

      private

      # In the template of a proxy that has the socket, "another one" would be that proxy.
      def free?(control)
        return true unless ProxyControl.listens?(control)
        return false if @apart
        warn "neverblock proxy: the control socket #{control} is another proxy's, and this one has none. Give it " \
          "one: --control PATH"
      end

      def rackup = @rackup ||= ProxyApp.new(configuration)

      def see = "neverblock proxy --help lists the options"

      def usual_address = ADDRESS

      def options(command) = super.tap { |parser| parser.banner = USAGE }

      def own_options(parser)
        parser.separator("")
        proxy_options(parser)
        cache_options(parser)
      end

      def proxy_options(parser)
        flag(parser, :upstream, "--upstream URL", "http://HOST:PORT, https://HOST:PORT or unix:/PATH;",
          "may be repeated")
        flag(parser, :bind, "--listen URI", "the same as --bind")
        flag(parser, :control, "--control PATH", "the socket for neverblock proxy explain and the like")
        parser.on("--host HOST", "the Host field for upstreams: keep, upstream or a name (keep)") do |text|
          @proxy_options[:host] = %w[keep upstream].include?(text) ? text.to_sym : text
        end
        parser.on("--timeout PHASE=SECONDS", "connect, first_byte, idle or total; may be repeated") do |text|
          timeout(text)
        end
        parser.on("--health PATH", "check upstreams by a GET of this path, such as /up") do |path|
          @proxy_options[:health] = {path: health(path)}
        end
        parser.on("--balance MODE",
          "least: the upstream with the fewest requests; hash: one for each URL (least)") do |text|
          @proxy_options[:balance] = text.to_sym
        end
        parser.on("--ca-file FILE", "certificates to trust, of https upstreams") do |path|
          @proxy_options[:ca_file] = path
        end
        parser.on("--trusted-client NETWORK", "whose X-Forwarded-* are passed on; may be repeated") do |text|
          (@proxy_options[:trusted_clients] ||= []) << text
        end
      end

      def cache_options(parser)
        parser.on("--cache STORE", "keep responses: memory:256m or file:/PATH?bytes=2g") do |text|
          @proxy[:cache] = text
        end
        parser.on("--collapse[=MODE]", "identical requests wait for one response: on, off or same-url",
          "(any headers but credentials and those in Vary)") do |text|
          @proxy[:collapse] = COLLAPSE.fetch(text) do
            raise ConfigurationError, "--collapse=#{text}: write on, off or same-url"
          end
        end
        parser.on("--ttl SECONDS", "keep responses that do not say for how long they are fresh") do |text|
          @proxy[:ttl] = seconds(text, "--ttl")
        end
      end

      def health(path)
        return path if path.start_with?("/")
        raise ConfigurationError, "--health: path: #{path.inspect} is not a path that begins with \"/\", such as " \
          "/up. The address of probes and /metrics is the directive health: health \"tcp://127.0.0.1:9090\""
      end

      def timeout(text)
        phase, value = PHASES.match(text)&.captures
        unless phase
          raise ConfigurationError, "--timeout #{text}: write connect=2, first_byte=60, idle=60 or total=30"
        end
        (@proxy_options[:timeouts] ||= {})[phase.to_sym] = seconds(value, "--timeout #{phase}")
      end

      def seconds(text, option)
        number = Float(text, exception: false)
        return number if number&.positive?
        raise ConfigurationError, "#{option}: #{text.inspect} is not a number of seconds, more than 0"
      end
    end
  end
end
