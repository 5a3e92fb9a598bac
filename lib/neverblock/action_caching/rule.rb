# frozen_string_literal: true

require_relative "../runtime/value_type"

module NeverBlock
  module ActionCaching
    # The options of one `caches_action`, and what they give for a request.
    #
    #   rule = Rule.new(expires_in: 60, per: -> { current_user.id }, tags: -> { ["report-#{params[:id]}"] })
    #   rule.scope(controller)    # => ["per", "Integer 7"]
    #   rule.tags(controller)     # => ["report-1"]
    # @api private
    class Rule
      OPTIONS = %i[expires_in shared per vary tags if unless].freeze
      # The scope of responses for requests without signs of a user.
      ANONYMOUS = ["anonymous"].freeze
      MOST_TAGS = 32
      TAG_BYTES = 200
      SECONDS = ValueType.seconds
      private_constant :OPTIONS, :SECONDS

      # @return [Numeric, nil] seconds
      attr_reader :expires_in

      # @param options [Hash{Symbol=>Object}] see {ActionCaching::ClassMethods#caches_action}
      # @raise [ConfigurationError]
      def initialize(**options)
        unknown = options.keys.find { |name| !OPTIONS.include?(name) }
        refuse("has no option #{unknown.inspect}; its options are #{OPTIONS.join(", ")}") if unknown
        @expires_in = seconds(options[:expires_in])
        @shared = flag(options.fetch(:shared, false))
        @per = callable(:per, options[:per])
        refuse("has shared: true and per:. A response is for all users, or for one: use one of them") if @shared && @per
        @vary = callable(:vary, options[:vary])
        @tags = (Array === options[:tags]) ? fixed_tags(options[:tags]) : callable(:tags, options[:tags])
        @if, @unless = %i[if unless].map { |name| [*options[name]].map { |one| callable(name, one) } }
      end

      # @param controller [ActionController::Metal] after its filters
      # @return [Boolean] whether `if:` and `unless:` let this request be cached
      def met?(controller)
        @if.all? { |one| evaluate(controller, one) } && @unless.none? { |one| evaluate(controller, one) }
      end

      # @return [Boolean] one response is for all users
      def shared? = @shared

      # @return [Boolean] each user has a response
      def per? = !@per.nil?

      # @param controller [ActionController::Metal] after its filters
      # @return [Array<String>, nil] nil: this request is not cached
      def scope(controller)
        return ["shared"] if @shared
        return ANONYMOUS unless @per
        value = evaluate(controller, @per)
        unknown?(value) ? nil : ["per", text(value)]
      end

      # @param controller [ActionController::Metal]
      # @return [String] what `vary:` gives
      def varies(controller) = text(@vary && evaluate(controller, @vary))

      # @param controller [ActionController::Metal]
      # @return [Array<String>, nil] nil: this request is not cached, because of a tag that its client or the data give
      # @raise [ConfigurationError] if a tag is no text
      def tags(controller)
        return @tags || [] if Array === @tags || @tags.nil?
        tags = Array(evaluate(controller, @tags))
        bad = tags.find { |tag| !(String === tag) }
        refuse("tags: #{bad.inspect} is not a String") unless bad.nil? && !tags.include?(nil)
        tags.map(&:downcase).uniq if tags.size <= MOST_TAGS && tags.all? { |tag| tag?(tag) }
      end

      private

      def evaluate(controller, what)
        (Symbol === what) ? controller.send(what) : controller.instance_exec(&what)
      end

      # What distinguishes equal from different values; an object without a text of its own would not.
      def text(value)
        case value
        when nil, true, false, Numeric, Symbol, String then "#{value.class} #{value}".b
        when Time then "Time #{value.to_r} #{value.utc_offset} #{value.zone}"
        when Date, ActiveSupport::Duration then "#{value.class} #{value.iso8601(*(9 if DateTime === value))}"
        when Array then "[#{value.map { |one| text(one) }.map { |one| "#{one.bytesize}:".b << one }.join}]"
        when Hash then "Hash #{text(value.to_a)}"
        else
          return text(value.to_unsafe_h) if value.respond_to?(:to_unsafe_h) # of params, in any form that a client sends
          unless value.respond_to?(:cache_key_with_version) && value.try(:persisted?) != false
            refuse("can't use #{value.inspect[0, 100]} in vary: or per:. Return texts, numbers or saved records")
          end
          "#{value.class} #{value.cache_key_with_version}".b
        end
      end

      # Visitors that did not log in are not one user.
      def unknown?(value)
        return true if value.nil? || value == false || value == ""
        Array === value && (value.empty? || value.any? { |one| unknown?(one) })
      end

      def seconds(value)
        value = value.to_f if value.respond_to?(:parts) && value.respond_to?(:to_f) # of ActiveSupport
        return if value.nil?
        SECONDS.check(value) { "caches_action expires_in:" }
      rescue ArgumentError => error
        raise ConfigurationError, error.message
      end

      def flag(value)
        return value if value == true || value == false
        refuse("shared: #{value.inspect} is neither true nor false")
      end

      def callable(name, value)
        return value if value.nil? || Symbol === value || Proc === value
        refuse("#{name}: #{value.inspect} is neither a block, as in -> { params[:id] }, nor the name of a method")
      end

      def fixed_tags(list)
        bad = list.find { |tag| !(String === tag && tag?(tag)) }
        refuse("tags: #{bad.inspect} is not a String of 1 to #{TAG_BYTES} bytes") if bad || list.include?(nil)
        refuse("tags: #{list.size} tags are more than the #{MOST_TAGS} of a response") if list.size > MOST_TAGS
        list.map(&:downcase).uniq
      end

      def tag?(text) = !text.empty? && text.bytesize <= TAG_BYTES && text.valid_encoding?

      def refuse(what) = raise(ConfigurationError, "caches_action #{what}")
    end
  end
end
