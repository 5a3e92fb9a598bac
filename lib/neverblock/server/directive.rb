# frozen_string_literal: true

require_relative "value_type"

module NeverBlock
  class Server
    # A directive of the configuration: its values, their types and defaults, and its documentation.
    #
    #   directive = Directive.new(:queue, "What waits …", example: "queue limit: 100",
    #     limit: [ValueType.count, 5_000], max_wait: [ValueType.seconds, 2.0])
    #   directive.settings.map(&:name)   # => [:queue_limit, :queue_max_wait]
    #
    # The value without a keyword is a setting with the directive's own name.
    # @api private
    class Directive
      # One value: its flat name, its keyword (nil: none), its type and its default.
      Setting = Data.define(:name, :keyword, :type, :default)

      # @return [Symbol]
      attr_reader :name
      # @return [String] its documentation
      attr_reader :says
      # @return [String] Ruby code
      attr_reader :example
      # @return [Array<Setting>]
      attr_reader :settings

      # @param name [Symbol]
      # @param says [String]
      # @param example [String]
      # @param many [Boolean] whether several values are collected
      # @param value [Array(ValueType, Object), nil] type and default of the value without a keyword
      # @param keywords [Hash{Symbol=>Array(ValueType, Object)}] type and default of each keyword's value
      def initialize(name, says, example:, many: false, value: nil, **keywords)
        @name = name
        @says = says.strip
        @example = example
        @many = many
        @settings = [*(Setting.new(name, nil, *value) if value)] +
          keywords.map { |keyword, (type, default)| Setting.new(:"#{name}_#{keyword}", keyword, type, default) }
      end

      # @return [Boolean] whether several values are collected
      def many? = @many

      # @return [Boolean]
      def takes_block? = settings.any? { |setting| setting.type.equal?(ValueType::BLOCK) }

      # Checks and converts values.
      # @param values [Array] those without a keyword
      # @param keywords [Hash{Symbol=>Object}]
      # @return [Hash{Symbol=>Object}] settings by their flat names
      # @raise [ArgumentError] with the value, the reason and the remedy
      def call(values, keywords)
        taken = own(values)
        keywords.each do |keyword, value|
          setting = settings.find { |one| one.keyword == keyword } or refuse_keyword(keyword)
          taken[setting.name] = take(setting, value)
        end
        taken.empty? ? raise(ArgumentError, "#{name} needs a value. #{remedy}") : taken
      end

      # @param text [String] from a command line
      # @return [Object] the setting's value
      # @raise [ArgumentError]
      def read(setting, text)
        collected(setting, [setting.type.check_text(text, remedy) { label(setting) }])
      end

      private

      def own(values)
        setting = settings.find { |one| one.keyword.nil? }
        return {} if values.empty?
        unless setting
          allowed = settings.map { |one| "#{one.keyword}:" }.join(" and ")
          raise ArgumentError, "#{name} #{values.first.inspect}: it takes #{allowed}. #{remedy}"
        end
        values = values.flatten(1) if many?
        if values.size > 1 && !many?
          raise ArgumentError, "#{name} #{values.map(&:inspect).join(", ")}: one value is expected. #{remedy}"
        end
        {setting.name => collected(setting, values.map { |value| take(setting, value) })}
      end

      def collected(setting, values) = (many? && setting.keyword.nil?) ? values : values.first

      def take(setting, value) = setting.type.check(value, remedy) { label(setting) }

      def label(setting) = setting.keyword ? "#{name} #{setting.keyword}:" : name

      def refuse_keyword(keyword)
        known = settings.filter_map(&:keyword)
        takes = known.any? ? "it takes #{known.map { |one| "#{one}:" }.join(", ")}" : "it takes no keywords"
        raise ArgumentError, "#{name} #{keyword}: is not known; #{takes}. #{remedy}"
      end

      def remedy = "For example: #{example}"
    end
  end
end
