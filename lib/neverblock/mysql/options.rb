# frozen_string_literal: true

require_relative "../runtime/value_type"
require_relative "../errors"

module NeverBlock
  class MySQL
    # The options of {MySQL.new}, and of database.yml and URLs, where all values may be text.
    #
    #   Options.complete({connections: 3})                # => {connections: 3, timeout: 5, max_waiting: 20_000, …}
    #   Options.read({connections: "3", host: "db"})      # => {connections: 3}
    # @api private
    module Options
      DEFAULTS = {connections: 12, timeout: 5, max_waiting: 20_000, shareable_functions: [].freeze}.freeze

      # Names in database.yml.
      KEYS = {
        connections: :connections, checkout_timeout: :timeout, max_waiting: :max_waiting,
        shareable_functions: :shareable_functions
      }.freeze

      class << self
        # @param options [Hash{Symbol=>Object}] from code
        # @return [Hash{Symbol=>Object}] all of them, checked
        # @raise [ConfigurationError]
        def complete(options)
          unknown = options.keys - DEFAULTS.keys
          if unknown.any?
            raise ConfigurationError, "MySQL's configuration: #{unknown.first}: is not an option. There are " \
              "#{DEFAULTS.keys.map { |name| "#{name}:" }.join(", ")}"
          end
          {**DEFAULTS, **options.to_h { |name, value| [name, checked(name, value)] }}
        end

        # @param config [Hash{Symbol=>Object}] of database.yml, with whatever else is in it
        # @return [Hash{Symbol=>Object}] the options in it, checked
        # @raise [ConfigurationError]
        def read(config)
          KEYS.slice(*config.keys).reject { |key, _| config[key].nil? }
            .to_h { |key, name| [name, checked(name, from_text(name, config[key]), key)] }
        end

        private

        def from_text(name, value)
          return value unless String === value
          return value.split(",").map(&:strip) if name == :shareable_functions
          Integer(value, exception: false) || Float(value, exception: false) || value
        end

        def checked(name, value, key = name)
          valid = case name
          when :connections, :max_waiting then Integer === value && value.positive?
          when :timeout then value.nil? || (Numeric === value && value.positive?)
          when :shareable_functions then Array === value && value.all?(String)
          end
          return value if valid
          raise ConfigurationError, "MySQL's configuration: #{key}: #{value.inspect} is not #{WANTED.fetch(name)}. " \
            "For example: #{key}: #{EXAMPLES.fetch(name)}"
        end
      end

      WANTED = {
        connections: "a whole number, 1 or more", max_waiting: "a whole number, 1 or more",
        timeout: "a number of seconds above 0, or nil", shareable_functions: "a list of names of functions"
      }.freeze
      EXAMPLES = {connections: "20", max_waiting: "5000", timeout: "10", shareable_functions: '["price"]'}.freeze
      private_constant :WANTED, :EXAMPLES
    end
  end
end
