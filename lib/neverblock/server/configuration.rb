# frozen_string_literal: true

require_relative "directives"
require_relative "processors"

module NeverBlock
  class Server
    # The settings of a server, from code or from a file:
    #
    #   Configuration.new(max_in_flight: 200, queue: {limit: 500}, bind: ["tcp://127.0.0.1:0"])
    #   Configuration.load("config/neverblock.rb")
    #
    # Keywords, and the methods in a file, are the directives of docs/configuration.md. A directive's own keywords are
    # given as a Hash, or flat: `queue_limit: 500`. Later settings win.
    class Configuration
      # The file that `neverblock serve` reads if it exists.
      FILE = "config/neverblock.rb"
      # Variables that name the environment, in Puma's order; images of Rails set RAILS_ENV only.
      ENVIRONMENTS = %w[APP_ENV RACK_ENV RAILS_ENV].freeze
      # Settings that the C core does not take, or takes in another form ({#to_core}).
      NOT_IN_CORE = %i[bind backlog shutdown_timeout request_body request_body_path underscore_headers access_log
        access_log_to error_log environment tag stack_depth_vm stack_depth_machine workers directory boot_timeout
        before_fork after_fork before_worker_exit worker_timeout recycle_memory recycle_requests sidecar drain_delay
        health control pid_file restart_file trusted_proxies trusted_proxies_field upstream
        proxy_cache proxy_collapse proxy_ttl proxy_options proxy_cache_options].freeze
      private_constant :ENVIRONMENTS, :NOT_IN_CORE
      # The address if none is configured.
      DEFAULT_ADDRESS = Address.parse("tcp://127.0.0.1:3000")

      # @param path [String]
      # @return [Configuration] as {#load} reads it
      # @raise [ConfigurationError] naming file and line, directive, value and remedy
      def self.load(path, **) = new.load(path, **)

      # @param directives [Hash{Symbol=>Object}]
      # @raise [ConfigurationError]
      def initialize(**directives)
        @values = {}
        @places = {}
        @notes = []
        directives.each { |name, value| set(name, value) }
      end

      # Reads a file; its settings override earlier ones.
      # @param path [String]
      # @param puma [Boolean] whether it was written for Puma; the default goes by its name
      # @return [self]
      # @raise [ConfigurationError]
      def load(path, puma: FromPuma.file?(path))
        return take_puma(FromPuma.read(self, path)) if puma
        DSL.new(self, path).read
        self
      end

      # @return [Array<String>] notes about the files that were read, a line each
      attr_reader :notes

      # @api private
      # @return [FromPuma::Translation, nil] of the Puma configuration that was read
      attr_reader :puma

      # @param name [Symbol] a setting's flat name, such as :queue_limit
      # @return [Object]
      # @raise [KeyError] if there is none of this name
      def [](name) = @values.fetch(name) { Directives::SETTINGS.fetch(name).last.default }

      # @param name [Symbol]
      # @return [Boolean] whether it was set
      def set?(name) = @values.key?(name)

      # @api private
      # @param name [Symbol]
      # Removes a setting, so that its default counts again.
      # @return [self]
      def unset(name)
        [@values, @places].each { |all| all.delete(name) }
        self
      end

      # Sets a directive, or one setting of it by its flat name.
      # @param name [Symbol]
      # @param value [Object] a Hash gives a directive's keywords
      # @param at [String, nil] file and line, for messages
      # @return [self]
      # @raise [ConfigurationError]
      def set(name, value, at: nil)
        name = name.to_sym
        directive, setting = Directives::SETTINGS[name]
        directive ||= Directives::ALL[name] || unknown(name, at)
        return apply(directive, [value], {}, at:) unless Hash === value || setting&.keyword
        apply(directive, [], (Hash === value) ? value.transform_keys(&:to_sym) : {setting.keyword => value}, at:)
      end

      # Sets a setting from the text of a command line.
      # @param name [Symbol] a setting's flat name
      # @param text [String]
      # @return [self]
      # @raise [ConfigurationError]
      def read(name, text, at: nil)
        directive, setting = Directives::SETTINGS[name] || unknown(name, at)
        take(directive, {setting.name => directive.read(setting, text)}, at)
      rescue ArgumentError => error
        refuse(error, at)
      end

      # @api private
      # Takes the number of workers from WEB_CONCURRENCY if nothing else has set it. 1 means a single process: platforms
      # set it when memory is short, and one worker with a supervisor and a template would be three processes.
      # @param env [Hash] the environment
      # @return [void]
      def take_concurrency(env)
        count = env["WEB_CONCURRENCY"].to_s.strip
        return if set?(:workers) || count.empty?
        read(:workers, (count == "1") ? "0" : count, at: "WEB_CONCURRENCY in the environment")
      end

      # @api private
      # @param directive [Directive]
      # @param values [Array]
      # @param keywords [Hash]
      # @return [self]
      def apply(directive, values, keywords, at: nil)
        take(directive, directive.call(values, keywords), at)
      rescue ArgumentError => error
        refuse(error, at)
      end

      # @api private
      # @raise [ConfigurationError] always
      def unknown(name, at)
        suggestion = Directives.suggestion(name) || FromPuma.suggestion(name) || Directives.near(name)
        raise ConfigurationError, "#{"#{at}: " if at}there is no directive #{name}.#{suggestion} " \
          "docs/configuration.md has them all"
      end

      # Checks for contradictions, after all settings were made.
      # @return [self]
      # @raise [ConfigurationError] with a line for each contradiction
      def check
        found = contradictions
        raise ConfigurationError, found.join("\n") if found.any?
        self
      end

      # @api private
      # Adds file and line of a setting to the ConfigurationError that the block raises.
      # @param name [Symbol]
      # @raise [ConfigurationError]
      def blame(name)
        yield self[name]
      rescue ConfigurationError => error
        refuse(error, @places[name])
      end

      # @api private
      # @param name [Symbol] of a directive that takes blocks
      # @return [void]
      def call_hooks(name, *arguments) = self[name].each { |hook| hook.call(*arguments) }

      # @return [Numeric] seconds for which a server that is being stopped still accepts connections
      def drain_delay = self[:drain_delay] || (%w[development test].include?(environment) ? 0 : 5)

      # @return [String]
      def environment
        self[:environment] || ENV.values_at(*ENVIRONMENTS).compact.reject(&:empty?).first || "development"
      end

      # @return [Integer] number of worker processes; 0: this process serves
      def worker_count
        workers = self[:workers]
        (workers == :auto) ? Processors.count : workers
      end

      # @return [Array<Address>] addresses to listen on
      def addresses = self[:bind].empty? ? [DEFAULT_ADDRESS] : self[:bind]

      # @return [Hash{Symbol=>Object}] every setting by its flat name
      def to_h = Directives::SETTINGS.each_key.to_h { |name| [name, self[name]] }

      # @api private
      # @return [Hash{Symbol=>Object}] the settings of the C core
      def to_core
        networks = self[:trusted_proxies] - [TrustedNetworks::UNIX]
        to_h.except(*NOT_IN_CORE).merge(
          stream_paths: (self[:request_body] == :stream) ? self[:request_body_path] || true : nil,
          pass_underscores: self[:underscore_headers] == :pass,
          trusted_networks: networks.map { |text| TrustedNetworks.to_core(text) },
          trusts_local: self[:trusted_proxies].include?(TrustedNetworks::UNIX),
          forwarded_field: self[:trusted_proxies_field] == :forwarded,
          log_requests: self[:access_log] != false
        )
      end

      # @return [String] the settings that were made, as directives
      def inspect = "#<#{self.class}#{@values.map { |name, _| " #{name}=#{shown(name)}" }.join}>"

      private

      def initialize_copy(_other)
        @values = @values.dup
        @places = @places.dup
      end

      def take_puma(translation)
        @puma = translation
        @notes += translation.notes
        self
      end

      # A setting replaces that of another file. Within one file, a directive that takes several values collects them.
      def take(directive, values, at)
        values.each do |name, value|
          collects = directive.many? && at && place(at) == place(@places[name])
          @values[name] = collects ? @values[name] + value : value
          @places[name] = at
        end
        self
      end

      def place(at) = at&.sub(/:\d+\z/, "")

      def refuse(error, at)
        raise ConfigurationError, at ? "#{at}: #{error.message}" : error.message, cause: nil
      end

      # @return [Array<String>]
      def contradictions
        found = []
        if self[:body_quota] < self[:max_body_size]
          found << contradiction(:body_quota,
            "is less than max_body_size #{shown(:max_body_size)}, so that no body of that size " \
            "could ever come. Raise it, or lower max_body_size", said: %i[body_quota max_body_size])
        end
        if set?(:max_uri_length) && self[:max_uri_length] > self[:max_head_size]
          found << contradiction(:max_uri_length,
            "is more than max_head_size #{shown(:max_head_size)}, of which it is a part. Raise that, or lower it")
        end
        if self[:request_body] == :buffer && self[:request_body_path]
          found << contradiction(:request_body_path, "has no meaning with :buffer, which holds for all paths. Write: " \
            "request_body :stream, path: #{shown(:request_body_path)}")
        end
        if set?(:access_log_to) && !set?(:access_log)
          found << contradiction(:access_log_to,
            "writes nothing without a format. Write: access_log :common, to: #{shown(:access_log_to)}")
        end
        if set?(:trusted_proxies_field) && self[:trusted_proxies].empty?
          found << contradiction(:trusted_proxies_field, "means nothing without proxies. Write: " \
            "trusted_proxies \"10.0.0.0/8\", field: #{shown(:trusted_proxies_field)}")
        end
        found
      end

      # Adds file and line; one of the two settings may be a default.
      def contradiction(name, text, said: [name])
        at = @places.values_at(*said).compact.first
        word, keyword = Directives::SETTINGS[name].then { |directive, setting| [directive.name, setting.keyword] }
        "#{"#{at}: " if at}#{word} #{"#{keyword}: " if keyword}#{shown(name)} #{text}"
      end

      def shown(name) = Directives::SETTINGS[name].last.type.show(self[name])
    end
  end
end

require_relative "dsl"
require_relative "from_puma"
