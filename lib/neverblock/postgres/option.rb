# frozen_string_literal: true

require_relative "../errors"
require_relative "value_type"

module NeverBlock
  class Postgres
    # An option of {Postgres} and of the adapters, with the values that it can have, its default and its documentation.
    #
    #   option = Option.new(:timeout, ValueType.time_limit, 5, "Seconds …", example: "10", key: :checkout_timeout)
    #   option.take(3)      # => 3, from code
    #   option.read("3")    # => 3, from database.yml, or from a URL, where all values are text
    #   option.take(-1)     # raises "…: timeout: -1 is not a number of seconds, …. For example: timeout: 10"
    # @api private
    class Option
      # @return [Symbol]
      attr_reader :name
      # @return [ValueType]
      attr_reader :type
      # @return [Object]
      attr_reader :default
      # @return [String] its documentation
      attr_reader :says
      # @return [String] the meaning of nil
      attr_reader :unset
      # @return [Symbol, nil] its name in database.yml and in URLs; nil: it is for code alone
      attr_reader :key
      # @return [Object, nil] the default with Active Record, where that differs
      attr_reader :active_record
      # @return [String] an example in Ruby
      attr_reader :example
      # @return [String] an example in database.yml
      attr_reader :yaml
      # @return [Array(Symbol, String), nil] its old name, and the release that deprecated it
      attr_reader :was

      # @param name [Symbol] of the keyword argument
      # @param type [ValueType]
      # @param default [Object]
      # @param says [String]
      # @param example [String] a value, as Ruby code that YAML reads too, but for a Symbol's colon
      def initialize(name, type, default, says, example:, key: name, unset: "none", active_record: nil, was: nil)
        @name = name
        @type = type
        @default = default
        @says = says.split.join(" ").freeze
        @key = key
        @example = "#{name}: #{example}"
        @yaml = "#{key}: #{example.delete_prefix(":")}"
        @unset = unset
        @active_record = active_record
        @was = was
        freeze
      end

      # @param value [Object] from code
      # @return [Object] the value to keep
      # @raise [ConfigurationError]
      def take(value) = checked { type.check(value, "For example: #{example}") { "#{name}:" } }

      # @param value [Object] from database.yml, or the text of a URL
      # @return [Object] the value to keep
      # @raise [ConfigurationError]
      def read(value)
        checked do
          type.public_send((String === value) ? :check_text : :check, value, "For example: #{yaml}") { "#{key}:" }
        end
      end

      private

      def checked
        yield
      rescue ArgumentError => error
        raise ConfigurationError, "PostgreSQL's configuration: #{error.message}"
      end
    end
  end
end
