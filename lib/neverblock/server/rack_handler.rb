# frozen_string_literal: true

require_relative "../server"

module NeverBlock
  class Server
    # Lets Rack's own launchers start the server: `rackup -s neverblock`.
    #
    #   rackup -s neverblock -o 127.0.0.1 -p 3000 -O max_in_flight=100 -O queue_limit=500
    #
    # It listens on Host and Port, or on `-O bind=URI`. -O takes every setting of docs/configuration.md.
    # config/neverblock.rb is read first, for everything but the address; with Rails for the address too, unless the
    # command line names one.
    module RackHandler
      # Options of launchers that are not for the server.
      FOREIGN = %i[app binding builder caching config daemonize debug environment heapfile include log_stdout
        log_to_stdout pid profile_file profile_mode quiet require restart_cmd server user_supplied_options using
        warn].freeze
      # Options that make the address.
      ADDRESS = %i[Host Port].freeze
      private_constant :FOREIGN, :ADDRESS
      # Exit statuses, as those of `neverblock serve`.
      FAILED, USAGE = 1, 64
      private_constant :FAILED, :USAGE

      # Serves until TERM or INT. On an error it prints one line and ends the process; launchers would print their own
      # backtrace.
      # @param app [#call]
      # @param options [Hash{Symbol=>Object}] :Host, :Port, and settings, with values as text or as Ruby objects
      # @yieldparam server [Server] before it starts
      # @return [Boolean] whether no request was cancelled
      # @raise [SystemExit] with status 64 for an invalid setting, 1 if an address can't be opened
      def self.run(app, **options)
        reporting do
          server = Server.new(app, configuration(options))
          yield server if block_given?
          server.run
        end
      end

      # @api private
      # Output of the app is written at once, also to a pipe or a file, as with `neverblock serve`.
      def self.reporting
        [$stdout, $stderr].each { |io| io.sync = true }
        yield
      rescue ConfigurationError, BindError => error
        $stderr.write("neverblock: #{error.message}\n")
        exit((ConfigurationError === error) ? USAGE : FAILED)
      end

      # @return [Hash{String=>String}] options and descriptions, for rackup's help
      def self.valid_options
        settings = Directives::SETTINGS.map do |name, (directive, setting)|
          ["#{name}=VALUE", "#{setting.type.words} (default: #{setting.type.show(setting.default)}): " \
            "see #{directive.name} in docs/configuration.md"]
        end
        {"Host=HOST" => "where to listen (default: localhost)", "Port=PORT" => "the same (default: 9292)",
         **settings.to_h}
      end

      # @api private
      # @return [Configuration]
      def self.configuration(options)
        configuration = Configuration.new
        configuration.load(Configuration::FILE) if File.exist?(Configuration::FILE)
        configuration.set(:bind, address(options)) if asked?(options) || !configuration.set?(:bind)
        options.each { |name, value| take(configuration, name, value) unless value.nil? || FOREIGN.include?(name) }
        configuration
      end

      # @api private
      # @return [String] the launcher's address, as a URI; with Puma's notation, such as ssl://, it is one already
      def self.address(options)
        host = options[:Host] || "localhost"
        return host if host.include?("://")
        host = "[#{host}]" if host.include?(":") && !host.start_with?("[")
        "tcp://#{host}:#{options[:Port] || 9292}"
      end

      # Rails marks the options that the user has given; other launchers do not tell them from defaults.
      def self.asked?(options) = (options[:user_supplied_options] || ADDRESS).intersect?(ADDRESS)
      private_class_method :asked?

      # The launchers' own options are skipped: those with a capital letter, and those whose values are not text. Values
      # of -O are text, or true.
      def self.take(configuration, name, value)
        if Directives::SETTINGS.key?(name)
          (String === value) ? configuration.read(name, value, at: "-O #{name}") : configuration.set(name, value)
        elsif Directives::ALL.key?(name)
          configuration.set(name, value)
        elsif name.match?(/\A[a-z]/) &&
            (String === value || value == true || Directives.suggestion(name) || Directives.near(name))
          configuration.unknown(name, "-O #{name}")
        end
      end
      private_class_method :take
    end
  end
end
