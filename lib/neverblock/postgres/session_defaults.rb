# frozen_string_literal: true

module NeverBlock
  class Postgres
    # What is set on every connection before it serves: `search_path`, the time zone, `variables:` of database.yml … Statements of
    # different session defaults never share a connection. Equal by what they say, and mostly the same: each remembers what became of it.
    #
    #   SessionDefaults.new(["SET search_path TO shop"], {"search_path" => "shop"})
    # @api private
    class SessionDefaults
      # How many of those that become of it are remembered.
      MAX_DERIVED = 100
      private_constant :MAX_DERIVED

      # @return [Array<String>] statements, in order
      attr_reader :statements
      # @return [Hash{String=>String}] what they set, by the parameter's name
      attr_reader :settings
      # @return [String, nil] client_encoding
      attr_reader :encoding

      # @return [Integer]
      attr_reader :hash

      # @param whole [Boolean] whether nothing else is set by the statements
      def initialize(statements = [], settings = {}, encoding = nil, whole: true)
        @statements = statements.freeze
        @settings = settings.freeze
        @encoding = encoding
        @whole = whole
        @hash = [statements, encoding].hash
        @next = {}
      end

      EMPTY = new

      # @param sql [String]
      # @param name [String, nil] the setting, if it is one
      # @param value [String, nil]
      # @return [SessionDefaults] that does this too
      def with(sql, name = nil, value = nil)
        return self if set?(name, value)
        remember([sql, name, value]) do
          SessionDefaults.new(statements - [sql] + [sql], known(name, value), encoding, whole: @whole && !name.nil? && name != "all")
        end
      end

      # @param encoding [String]
      # @return [SessionDefaults]
      def with_encoding(encoding) = remember(encoding) { SessionDefaults.new(statements, settings, encoding, whole: @whole) }

      # @param pg [PG::Connection] out of pipeline mode
      # @return [void]
      def apply(pg)
        pg.set_client_encoding(encoding) if encoding
        statements.each { |sql| pg.exec(sql) }
      end

      # @param value [String, nil] nil is the default
      # @return [Boolean] whether setting this would certainly change nothing
      def set?(name, value) = !name.nil? && (settings.key?(name) || @whole) && settings[name] == value

      # @param names [Array<String>] of settings
      # @return [Boolean] whether it may set one of them
      def sets?(names) = !@whole || names.any? { |name| settings.key?(name) }

      # @return [Boolean]
      def ==(other) = equal?(other) || (other.is_a?(SessionDefaults) && statements == other.statements && encoding == other.encoding)
      alias_method :eql?, :==

      private

      # Each statement looks for connections of its session defaults: those that are the same object need not be compared.
      def remember(change)
        @next.clear if @next.size >= MAX_DERIVED
        @next[change] ||= yield
      end

      # Who logs in as another one has no role any more; what is no SET may have set anything.
      def known(name, value)
        case name
        when nil, "all" then {}
        when "session_authorization" then {**settings.except("role"), name => value}
        else {**settings, name => value}
        end
      end
    end
  end
end
