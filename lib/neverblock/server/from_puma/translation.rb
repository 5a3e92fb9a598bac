# frozen_string_literal: true

require "socket"
require_relative "addresses"
require_relative "app"
require_relative "file_words"
require_relative "hooks"
require_relative "logs"
require_relative "operation"
require_relative "processes"
require_relative "requests"

module NeverBlock
  class Server
    module FromPuma
      # Translates a Puma configuration into settings, with a note about each of its directives.
      #
      #   translation = Translation.new(configuration, calls).call
      #   translation.notes     # => ["config/puma.rb:3: port 3000: here bind \"tcp://[::]:3000\""]
      #   translation.rackup    # => "config.ru", or nil
      # @api private
      class Translation
        TOPICS = [Addresses, Requests, Processes, Hooks, Operation, Logs, FileWords].freeze
        TOPICS.each { |topic| include topic }

        # @return [Hash{Symbol=>Row}] rows by each of their names
        ROWS = TOPICS.flat_map(&:rows).flat_map { |row| row.names.map { |name| [name, row] } }.to_h.freeze

        # @return [String] the host for all addresses of this machine, chosen as Puma does
        def self.everywhere
          outside = Socket.ip_address_list.select(&:ipv6?).reject(&:ipv6_loopback?)
          outside.any? ? "::" : "0.0.0.0"
        end

        # @return [Array<String>] a line for each directive
        attr_reader :notes

        # @return [String, nil] the rackup file that it names
        attr_reader :rackup

        # @return [Object, nil] the app, if the configuration contains it
        attr_reader :app

        # @return [String, nil] the directory that Puma would serve from
        attr_reader :directory

        # @param configuration [Configuration] is filled
        # @param calls [Array<Call>]
        # @param env [Hash] the environment
        def initialize(configuration, calls, env: ENV)
          @configuration = configuration
          @calls = calls
          @env = env
          @notes = []
          @lists = {}
          @left_out = []
          @around = {}
          @directory = last(:directory)&.then { |dir| File.expand_path(dir.to_s) }
        end

        # @return [self]
        # @raise [ConfigurationError]
        def call
          @calls.each { |call| translate(call) }
          take_environment
          self
        end

        # @param app [#call]
        # @return [#call] the app with the file's settings for single requests
        def wrap(app)
          wanted = @around.compact
          wanted.empty? ? app : App.new(app, **wanted)
        end

        # If none of the file's addresses can be served, the default address must not be used instead.
        # @return [void]
        # @raise [ConfigurationError]
        def complain
          return if @left_out.empty? || @configuration.set?(:bind)
          raise ConfigurationError,
            "#{@left_out.first}: no address is left to listen on. Name one that is tcp:// or unix://, " \
            "for instance on the command line: -b tcp://127.0.0.1:3000"
        end

        private

        def translate(call)
          @call = call
          handler = :"say_#{call.row.name}"
          said = send(handler, *call.values, **call.keywords, &call.block) if respond_to?(handler, true)
          @notes << "#{call.place}: #{call}: #{said || call.row.plain}" unless said == false
        rescue ConfigurationError
          raise
        rescue ArgumentError, TypeError => error
          raise ConfigurationError, "#{call.place}: #{call}: #{error.message}"
        end

        # The first argument of a directive's last call.
        def last(name) = @calls.reverse_each.find { |call| call.row.name == name }&.first

        def set(name, value)
          @configuration.set(name, value, at: @call.place)
          shown(name)
        end

        # For directives that collect values; all files that Puma would read share one list.
        def add(name, value)
          list = [*@lists[name], value]
          @configuration.unset(name).set(name, list, at: @call.place)
          @lists[name] = list
          shown(name, value)
        end

        # @param value [Object]
        # @return [String] the setting as in config/neverblock.rb
        def shown(name, value = @configuration[name])
          directive, setting = Directives::SETTINGS.fetch(name)
          return "here #{name}, where there are workers" if directive.takes_block?
          "here #{directive.name} #{"#{setting.keyword}: " if setting.keyword}#{setting.type.show(value)}"
        end

        # @return [String] the absolute path; relative ones begin in Puma's directory
        def path(path) = File.expand_path(path.to_s, @directory || Dir.pwd)

        # Takes the environment from the three variables that Puma reads.
        def take_environment
          name = @env.values_at("APP_ENV", "RACK_ENV", "RAILS_ENV").compact.first
          @configuration.set(:environment, name) unless name.nil? || @configuration.set?(:environment)
        end
      end
    end
  end
end
