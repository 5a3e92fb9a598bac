# frozen_string_literal: true

require_relative "address"

module NeverBlock
  class Server
    # The type of a directive's value: checks and converts a value, parses it from text, and prints it.
    #
    #   type = ValueType.bytes(least: 1)
    #   type.take("64 KiB")   # => 65536
    #   type.take(-1)         # => ValueType::REFUSED
    #   type.words            # => "a number of bytes, 1 or more, as in 65536 or \"64 KiB\""
    # @api private
    class ValueType
      REFUSED = Object.new.freeze
      # Raised instead of returning REFUSED when there is more to say than what is allowed; the message has it.
      Invalid = Class.new(ArgumentError)
      LARGEST_COUNT = (1 << 31) - 1
      LARGEST_BYTES = 1 << 53
      LONGEST = 366 * 86_400 # seconds: a longer time is a mistake, or meant to be nil
      UNITS = {"" => 1, "KIB" => 1 << 10, "MIB" => 1 << 20, "GIB" => 1 << 30, "KB" => 1_000, "MB" => 1_000_000, "GB" => 1_000_000_000}.freeze
      SIZE = /\A(\d[\d_]*)\s*([KMG]i?B|)\z/i
      FLAGS = {"true" => true, "on" => true, "yes" => true, "false" => false, "off" => false, "no" => false}.freeze

      # @param least [Integer] the smallest one
      # @return [ValueType] whole numbers
      def self.count(least: 0)
        new("a whole number, #{least} or more", text: ->(text) { Integer(text, 10, exception: false) },
          show: ->(value) { value.to_s.gsub(/(?<=\d)(?=(\d{3})+\z)/, "_") }) do |value|
          (Integer === value && value.between?(least, LARGEST_COUNT)) ? value : REFUSED
        end
      end

      # @param zero [Boolean] whether 0 is allowed
      # @return [ValueType] seconds; the number is not converted
      def self.seconds(zero: false)
        new("a number of seconds, #{zero ? "0 or more" : "more than 0"}", text: ->(text) { Float(text, exception: false) }) do |value|
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
        new("true or false", text: ->(text) { FLAGS[text.downcase] }) { |value| (value == true || value == false) ? value : REFUSED }
      end

      # @return [ValueType] one of these values
      def self.one_of(*values)
        new("one of #{values.map(&:inspect).join(", ")}", text: ->(text) { values.find { |value| value.to_s == text } }) do |value|
          values.include?(value) ? value : REFUSED
        end
      end

      # @return [ValueType] a String that is not empty
      def self.text(words = "a text")
        new(words) { |value| (String === value && !value.strip.empty?) ? value : REFUSED }
      end

      # @return [ValueType] a path that a unix socket can have
      def self.socket_path
        new("a path") do |value|
          next REFUSED unless String === value && !value.strip.empty?
          path = File.expand_path(value)
          next value if path.bytesize <= Address::LONGEST_PATH
          raise Invalid, "the path #{path} has #{path.bytesize} bytes, and a socket's can have #{Address::LONGEST_PATH}. Choose a shorter one"
        end
      end

      # @return [ValueType] the target of a log: a path, or an object with `write`
      def self.sink
        new("a path, or an IO such as $stdout") do |value|
          value = value.to_s if defined?(Pathname) && Pathname === value
          fits = (String === value) ? !value.strip.empty? : value.respond_to?(:write)
          fits ? value : REFUSED
        end
      end

      # @return [ValueType] one or more prefixes of request paths
      def self.paths
        new("a path that begins with /, or an Array of them", text: ->(text) { text.split(",") }) do |value|
          list = Array(value)
          (list.any? && list.all? { |path| String === path && path.start_with?("/") }) ? list : REFUSED
        end
      end

      def self.show_bytes(value)
        unit, size = %w[GiB MiB KiB].zip([30, 20, 10]).find { |_, bits| value.positive? && (value % (1 << bits)).zero? }
        unit ? "\"#{value >> size} #{unit}\"" : value.to_s
      end
      private_class_method :show_bytes

      # @return [String] what is allowed, in words
      attr_reader :words

      # @param words [String] what is allowed
      # @param text [#call] converts a command line's text into a value for `take`; nil: invalid
      # @param show [#call] prints a value as Ruby code
      # @yield [value] returns the converted value, or REFUSED
      def initialize(words, text: ->(text) { text }, show: :inspect.to_proc, &take)
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

      # A block, or an object with `call`.
      BLOCK = new("a block", text: ->(_text) {}, show: ->(_value) { "a block" }) { |value| value.respond_to?(:call) ? value : REFUSED }
    end
  end
end
