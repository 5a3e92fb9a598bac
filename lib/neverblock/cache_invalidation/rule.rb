# frozen_string_literal: true

module NeverBlock
  module CacheInvalidation
    # What one `purges_cache` of a model says.
    #
    #   rule = Rule.new(tags: -> { "post-#{id}" }, urls: nil, on: :update, if: :published?)
    #   rule.on?(:update)     # => true
    #   rule.met?(post)       # => true
    #   rule.items(post)      # => [[:tag, "post-7"]]
    # @api private
    class Rule
      EVENTS = %i[create update destroy touch].freeze
      CONDITIONS = %i[if unless].freeze
      private_constant :CONDITIONS

      # @param tags [Proc, Symbol, String, Array<String>, nil]
      # @param urls [Proc, Symbol, String, Array<String>, nil]
      # @param on [Symbol, Array<Symbol>]
      # @param conditions [Hash] if:, unless:
      # @raise [ConfigurationError]
      def initialize(tags:, urls:, on:, **conditions)
        @conditions = conditions(conditions)
        @sources = {tag: source(:tags, tags), url: source(:urls, urls)}.compact.freeze
        refuse("nothing. Name tags: or urls:") if @sources.empty?
        @events = events(on)
      end

      # @param event [Symbol]
      # @return [Boolean]
      def on?(event) = @events.include?(event)

      # @param record [ActiveRecord::Base]
      # @return [Boolean]
      def met?(record)
        @conditions[:if].all? { |one| ask(record, one) } && @conditions[:unless].none? { |one| ask(record, one) }
      end

      # @param record [ActiveRecord::Base]
      # @return [Array<Array(Symbol, Object)>] :tag or :url, and its text
      def items(record)
        @sources.flat_map do |kind, source|
          found = source.is_a?(Array) ? source : ask(record, source)
          [*found].flatten.compact.map { |item| [kind, item] }
        end
      end

      private

      def source(name, value)
        case value
        when nil, Symbol, Proc then value
        when String then [value].freeze
        when Array
          refuse("#{name}: #{value.inspect}, in which not all are Strings") unless value.all?(String)
          value.dup.freeze
        else refuse("#{name}: #{value.inspect}, which is neither a block, a method's name nor a list of Strings")
        end
      end

      def events(on)
        events = [*on]
        unknown = events.find { |event| !EVENTS.include?(event) }
        refuse("on: #{unknown.inspect}. Events are #{EVENTS.join(", ")}") if unknown || events.empty?
        events.freeze
      end

      def conditions(given)
        unknown = given.keys.find { |name| !CONDITIONS.include?(name) }
        refuse("#{unknown}:. Its options are tags, urls, on, if, unless") if unknown
        CONDITIONS.to_h do |name|
          list = [*given[name]]
          wrong = list.find { |one| !(Symbol === one || Proc === one) }
          refuse("#{name}: #{wrong.inspect}, which is neither a block nor a method's name") unless wrong.nil?
          [name, list.freeze]
        end
      end

      def ask(record, what)
        return record.send(what) if Symbol === what
        what.arity.zero? ? record.instance_exec(&what) : record.instance_exec(record, &what)
      end

      def refuse(what) = raise(ConfigurationError, "purges_cache got #{what}")
    end
  end
end
