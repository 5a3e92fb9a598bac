# frozen_string_literal: true

require_relative "kind"

module NeverBlock
  class Server
    # One word of the configuration, with what it takes, its default and its documentation.
    #
    #   directive = Directive.new(:queue, "What waits …", example: "queue limit: 100",
    #     limit: [Kind.count, 5_000], max_wait: [Kind.seconds, 2.0])
    #   directive.settings.map(&:name)   # => [:queue_limit, :queue_max_wait]
    #
    # What it takes without a keyword is a setting by the word's own name.
    # @api private
    class Directive
      # One value: its flat name, the keyword that gives it (nil: none), what it can be.
      Setting = Data.define(:name, :keyword, :kind, :default)

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
      # @param value [Array(Kind, Object), nil] what it takes without a keyword, and the default
      # @param keywords [Hash{Symbol=>Array(Kind, Object)}]
      def initialize(name, says, example:, many: false, value: nil, **keywords)
        @name = name
        @says = says.strip
        @example = example
        @many = many
        @settings = [*(Setting.new(name, nil, *value) if value)] +
          keywords.map { |keyword, (kind, default)| Setting.new(:"#{name}_#{keyword}", keyword, kind, default) }
      end

      # @return [Boolean] whether several values are collected
      def many? = @many

      # @return [Boolean]
      def takes_block? = settings.any? { |setting| setting.kind.equal?(Kind::BLOCK) }

      # Checks what it was given.
      # @param values [Array] without a keyword
      # @param keywords [Hash{Symbol=>Object}]
      # @return [Hash{Symbol=>Object}] settings by their flat names
      # @raise [ArgumentError] what is wrong, and the remedy
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
        kept = setting.kind.read(text)
        Kind::REFUSED.equal?(kept) ? refuse(setting, text) : collected(setting, [kept])
      rescue Kind::Flaw => flaw
        refuse(setting, text, flaw.message)
      end

      private

      def own(values)
        setting = settings.find { |one| one.keyword.nil? }
        return {} if values.empty?
        raise ArgumentError, "#{name} #{values.first.inspect}: it takes #{settings.map { |one| "#{one.keyword}:" }.join(" and ")}. #{remedy}" unless setting
        values = values.flatten(1) if many?
        raise ArgumentError, "#{name} #{values.map(&:inspect).join(", ")}: one value is expected. #{remedy}" if values.size > 1 && !many?
        {setting.name => collected(setting, values.map { |value| take(setting, value) })}
      end

      def collected(setting, values) = (many? && setting.keyword.nil?) ? values : values.first

      def take(setting, value)
        kept = setting.kind.take(value)
        Kind::REFUSED.equal?(kept) ? refuse(setting, value) : kept
      rescue Kind::Flaw => flaw
        refuse(setting, value, flaw.message)
      end

      def refuse(setting, value, flaw = nil)
        word = setting.keyword ? "#{name} #{setting.keyword}:" : name
        raise ArgumentError, "#{word} #{value.inspect}#{flaw ? ": #{flaw}" : " is not #{setting.kind.words}"}. #{remedy}"
      end

      def refuse_keyword(keyword)
        known = settings.filter_map(&:keyword)
        takes = known.any? ? "it takes #{known.map { |one| "#{one}:" }.join(", ")}" : "it takes no keywords"
        raise ArgumentError, "#{name} #{keyword}: is not known; #{takes}. #{remedy}"
      end

      def remedy = "For example: #{example}"
    end
  end
end
