# frozen_string_literal: true

require_relative "../server"

module NeverBlock
  class Server
    # Lets Rack's own launchers start the server: `rackup -s neverblock`.
    #
    #   rackup -s neverblock -o 127.0.0.1 -p 3000 -O max_in_flight=100 -O queue_limit=500
    #
    # Host and Port say where it listens, unless `-O bind=URI` does; -O takes every setting of docs/configuration.md;
    # config/neverblock.rb is read first, for all but the address (with Rails for that too, if nobody has asked for another).
    module RackHandler
      # What launchers hand over that is not for us.
      FOREIGN = %i[app binding builder caching config daemonize debug
        environment heapfile include log_stdout log_to_stdout pid profile_file profile_mode quiet require restart_cmd server
        user_supplied_options using warn].freeze
      # Of an address.
      ADDRESS = %i[Host Port].freeze
      private_constant :FOREIGN, :ADDRESS
      # Statuses, as those of `neverblock serve`.
      FAILED, USAGE = 1, 64
      private_constant :FAILED, :USAGE

      # Serves until TERM or INT. Where it can't, it says so in a line and ends the process, as launchers would show a
      # backtrace of their own.
      # @param app [#call]
      # @param options [Hash{Symbol=>Object}] :Host, :Port, and settings, their values as text or as they are
      # @yieldparam server [Server] before it starts
      # @return [Boolean] whether no request was cut short
      # @raise [SystemExit] with status 64 if a setting can't be, 1 if an address can't be had
      def self.run(app, **options)
        reporting do
          server = Server.new(app, configuration(options))
          yield server if block_given?
          server.run
        end
      end

      # @api private
      # What the app prints is written at once, also to a pipe or a file, as with `neverblock serve`.
      def self.reporting
        [$stdout, $stderr].each { |io| io.sync = true }
        yield
      rescue ConfigurationError, BindError => error
        $stderr.write("neverblock: #{error.message}\n")
        exit((ConfigurationError === error) ? USAGE : FAILED)
      end

      # @return [Hash{String=>String}] what -O takes, for rackup's help
      def self.valid_options
        settings = Directives::SETTINGS.map do |name, (directive, setting)|
          ["#{name}=VALUE", "#{setting.type.words} (default: #{setting.type.show(setting.default)}): see #{directive.name} in docs/configuration.md"]
        end
        {"Host=HOST" => "where to listen (default: localhost)", "Port=PORT" => "the same (default: 9292)", **settings.to_h}
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
      # @return [String] where the launcher would listen
      def self.address(options)
        host = options[:Host] || "localhost"
        host = "[#{host}]" if host.include?(":") && !host.start_with?("[")
        "tcp://#{host}:#{options[:Port] || 9292}"
      end

      # Rails tells apart what somebody has asked for and what are its defaults; others do not.
      def self.asked?(options) = (options[:user_supplied_options] || ADDRESS).intersect?(ADDRESS)
      private_class_method :asked?

      # Launchers' own words are passed over: those with a capital, and those whose values are no text. What -O gives is
      # text, or true.
      def self.take(configuration, name, value)
        if Directives::SETTINGS.key?(name)
          (String === value) ? configuration.read(name, value, at: "-O #{name}") : configuration.set(name, value)
        elsif Directives::ALL.key?(name)
          configuration.set(name, value)
        elsif name.match?(/\A[a-z]/) && (String === value || value == true || Directives.suggestion(name) || Directives.near(name))
          configuration.unknown(name, "-O #{name}")
        end
      end
      private_class_method :take
    end
  end
end
