# frozen_string_literal: true

module NeverBlock
  # The type of an option's value: checks and converts a value, parses it from text, and prints it. All checks
  # of this gem use it: those of the arguments of NeverBlock's functions ({Options}), of the server's
  # directives, and of PostgreSQL's options.
  #
  #   type = ValueType.bytes(least: 1)
  #   type.take("64 KiB")   # => 65536
  #   type.take(-1)         # => ValueType::REFUSED
  #   type.words            # => "a number of bytes, 1 or more, as in 65536 or \"64 KiB\""
  #   type.check(-1) { "max_body_size" }   # raises "max_body_size -1 is not a number of bytes, 1 or more, …"
  # @api private
  class ValueType
    REFUSED = Object.new.freeze
    # Raised instead of returning REFUSED when there is more to say than what is allowed; the message has it.
    Invalid = Class.new(ArgumentError)
    LARGEST_COUNT = (1 << 31) - 1
    LARGEST_BYTES = 1 << 53
    LONGEST = 366 * 86_400 # seconds: a longer time is a mistake, or meant to be nil
    UNITS = {
      "" => 1,
      "KIB" => 1 << 10, "MIB" => 1 << 20, "GIB" => 1 << 30,
      "KB" => 1_000, "MB" => 1_000_000, "GB" => 1_000_000_000
    }.freeze
    SIZE = /\A(\d[\d_]*)\s*([KMG]i?B|)\z/i
    AS_IT_IS = ->(text) { text }
    private_constant :AS_IT_IS
    FLAGS = {"true" => true, "on" => true, "yes" => true, "false" => false, "off" => false, "no" => false}.freeze

    # @param least [Integer] the smallest one
    # @param most [Integer] the largest one
    # @return [ValueType] whole numbers
    def self.count(least: 0, most: LARGEST_COUNT)
      words = (most < LARGEST_COUNT) ? "from #{least} to #{most}" : "#{least} or more"
      new("a whole number, #{words}", text: ->(text) { Integer(text, 10, exception: false) },
        show: ->(value) { value.to_s.gsub(/(?<=\d)(?=(\d{3})+\z)/, "_") }) do |value|
        (Integer === value && value.between?(least, most)) ? value : REFUSED
      end
    end

    # @param zero [Boolean] whether 0 is allowed
    # @return [ValueType] seconds; the number is not converted
    def self.seconds(zero: false)
      new("a number of seconds, #{zero ? "0 or more" : "more than 0"}",
        text: ->(text) { Float(text, exception: false) }) do |value|
        number = Integer === value || Float === value || Rational === value
        (number && value <= LONGEST && (value > 0 || (zero && value == 0))) ? value : REFUSED
      end
    end

    # @return [ValueType] sizes, kept as Integers
    def self.bytes(least: 0)
      new("a number of bytes, #{least} or more, as in 65536 or \"64 KiB\"", show: method(:show_bytes)) do |value|
        value = value[SIZE, 1].to_i * UNITS.fetch(value[SIZE, 2].upcase) if String === value && SIZE.match?(value)
        (Integer === value && value.between?(least, LARGEST_BYTES)) ? value : REFUSED
      end
    end

    # @return [ValueType] true or false
    def self.flag
      new("true or false", text: ->(text) { FLAGS[text.downcase] }) do |value|
        (value == true || value == false) ? value : REFUSED
      end
    end

    # @return [ValueType] one of these values
    def self.one_of(*values)
      values.freeze
      new("one of #{values.map(&:inspect).join(", ")}",
        text: ->(text) { values.find { |value| value.to_s == text } }) do |value|
        values.include?(value) ? value : REFUSED
      end
    end

    # @return [ValueType] a String that is not empty
    def self.text(words = "a text")
      new(words) { |value| (String === value && !value.strip.empty?) ? value : REFUSED }
    end

    # @return [ValueType] the longest wait in seconds; the number is not converted; nil or an infinite number: no limit
    def self.time_limit
      new("a number of seconds, 0 or more, or nil for no limit",
        text: ->(text) { Float(text, exception: false) }) do |value|
        (value.nil? || (value.is_a?(Numeric) && value.real? && value >= 0)) ? value : REFUSED
      end
    end

    # @return [ValueType] something with `write`
    def self.writer
      new("an IO, or something else with `write`, such as a StringIO") do |value|
        value.respond_to?(:write) ? value : REFUSED
      end
    end

    def self.show_bytes(value)
      unit, size = %w[GiB MiB KiB].zip([30, 20, 10]).find { |_, bits| value.positive? && (value % (1 << bits)).zero? }
      unit ? "\"#{value >> size} #{unit}\"" : value.to_s
    end
    private_class_method :show_bytes

    # @return [String] the allowed values, as text
    attr_reader :words

    # @param words [String] the allowed values
    # @param text [#call] converts a command line's text into a value for `take`; nil: invalid
    # @param show [#call] prints a value as Ruby code
    # @yield [value] returns the converted value, or REFUSED
    def initialize(words, text: AS_IT_IS, show: :inspect.to_proc, &take)
      @words = words
      @text = text
      @show = show
      @take = take
    end

    # @return [Object] the converted value, or REFUSED
    def take(value) = @take.call(value)

    # @return [Object] the converted value of a command line's text, or REFUSED
    def read(text)
      value = @text.call(text)
      value.nil? ? REFUSED : take(value)
    end

    # @param value [Object]
    # @param remedy [String, nil] the end of the message
    # @yieldreturn [String] the option's name, the beginning of the message
    # @return [Object] the converted value
    # @raise [ArgumentError] names the refused value, the allowed ones, and the remedy
    def check(value, remedy = nil)
      kept = take(value)
      REFUSED.equal?(kept) ? refuse(yield, value, remedy) : kept
    rescue Invalid => invalid
      refuse(yield, value, remedy, invalid.message)
    end

    # As {#check}, of an option of an app's configuration.
    # @param value [Object]
    # @yieldreturn [String] the option's name
    # @return [Object]
    # @raise [ConfigurationError]
    def setting(value, &)
      check(value, &)
    rescue ArgumentError => error
      raise ConfigurationError, error.message
    end

    # As {#check}, of a command line's text.
    # @param text [String]
    # @return [Object]
    # @raise [ArgumentError]
    def check_text(text, remedy = nil)
      kept = read(text)
      REFUSED.equal?(kept) ? refuse(yield, text, remedy) : kept
    rescue Invalid => invalid
      refuse(yield, text, remedy, invalid.message)
    end

    # @return [String] a converted value as Ruby code
    def show(value) = @show.call(value)

    # @return [ValueType] this type, with nil as another value
    def optional
      inner = self
      none = ->(text) { %w[nil none off].include?(text.downcase) }
      Optional.new("#{words}, or nil", text: ->(text) { none[text] ? :none : inner.read(text) },
        show: ->(value) { value.nil? ? "nil" : inner.show(value) }) { |value| value.nil? ? nil : inner.take(value) }
    end

    # A type with nil as another value.
    class Optional < ValueType
      # @return [Object]
      def read(text)
        value = @text.call(text)
        (value == :none) ? nil : value
      end
    end
    private_constant :Optional

    # A block, or what can be called like one.
    BLOCK = new("a block", text: ->(_text) {}, show: ->(_value) { "a block" }) do |value|
      value.respond_to?(:call) ? value : REFUSED
    end

    private

    def refuse(label, value, remedy, reason = nil)
      raise ArgumentError,
        "#{label} #{value.inspect}#{reason ? ": #{reason}" : " is not #{words}"}#{". #{remedy}" if remedy}"
    end
  end
end
