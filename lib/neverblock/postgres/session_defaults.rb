# frozen_string_literal: true

module NeverBlock
  class Postgres
    # The settings that a connection gets before it serves: `search_path`, the time zone, `variables:` of database.yml …
    # Statements with different session defaults never share a connection. Equal ones are mostly the same object: each
    # caches those derived from it.
    #
    #   SessionDefaults.new(["SET search_path TO shop"], {"search_path" => "shop"})
    # @api private
    class SessionDefaults
      # Derived session defaults that are cached.
      MAX_DERIVED = 100
      private_constant :MAX_DERIVED

      # @return [Array<String>] statements, in order
      attr_reader :statements
      # @return [Hash{String=>String}] their values, by the setting's name
      attr_reader :settings
      # @return [String, nil] client_encoding
      attr_reader :encoding

      # @return [Integer]
      attr_reader :hash

      # @param whole [Boolean] whether `settings` are all that the statements set
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
      # @param name [String, nil] the setting; nil: the statement is not a plain SET
      # @param value [String, nil]
      # @return [SessionDefaults] with this statement too
      def with(sql, name = nil, value = nil)
        return self if set?(name, value)
        remember([sql, name, value]) do
          SessionDefaults.new(statements - [sql] + [sql], known(name, value), encoding, whole: @whole && !name.nil?)
        end
      end

      # @param encoding [String]
      # @return [SessionDefaults]
      def with_encoding(encoding)
        remember(encoding) { SessionDefaults.new(statements, settings, encoding, whole: @whole) }
      end

      # @param pg [PG::Connection] out of pipeline mode
      # @return [void]
      def apply(pg)
        pg.set_client_encoding(encoding) if encoding
        statements.each { |sql| pg.exec(sql) }
      end

      # @param value [String, nil] nil: the server's default
      # @return [Boolean] whether setting this would certainly change nothing
      def set?(name, value) = !name.nil? && (settings.key?(name) || @whole) && settings[name] == value

      # @param names [Array<String>] of settings
      # @return [Boolean] whether they may set one of these
      def sets?(names) = !@whole || names.any? { |name| settings.key?(name) }

      # @return [Boolean]
      def ==(other)
        equal?(other) || (other.is_a?(SessionDefaults) && statements == other.statements && encoding == other.encoding)
      end
      alias_method :eql?, :==

      private

      # Each statement looks for a connection with its session defaults, and comparing the same object is fast.
      def remember(change)
        @next.clear if @next.size >= MAX_DERIVED
        @next[change] ||= yield
      end

      # SET SESSION AUTHORIZATION resets the role. A statement that is not a plain SET may have set anything.
      def known(name, value)
        case name
        when nil then {}
        when "session_authorization" then {**settings.except("role"), name => value}
        else {**settings, name => value}
        end
      end
    end
  end
end
