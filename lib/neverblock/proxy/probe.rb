# frozen_string_literal: true

module NeverBlock
  class Proxy
    # A check of an upstream: a GET on a connection of its own. A redirect is not followed, and has not passed unless
    # `status:` says so.
    #
    #   probe = Probe.new(path: "/up", every: 5, timeout: 2, fall: 3, rise: 2, status: 200..299)
    #   probe.call(pool)   # => nil; or why it has failed: "its status is 503"
    #
    # @!attribute [r] path
    #   @return [String] the target of the request
    # @!attribute [r] host
    #   @return [String, nil] the Host field; nil: the upstream's address
    # @!attribute [r] every
    #   @return [Numeric] seconds from one check to the next
    # @!attribute [r] timeout
    #   @return [Numeric] seconds for all of a check
    # @!attribute [r] fall
    #   @return [Integer] failed checks in a row after which an upstream is down
    # @!attribute [r] rise
    #   @return [Integer] passed checks in a row after which it is up again
    # @!attribute [r] status
    #   @return [Range<Integer>, Integer] statuses that pass
    Probe = Data.define(:path, :host, :every, :timeout, :fall, :rise, :status)

    # A check of an upstream.
    class Probe
      STATUS = ValueType.new("a status, or a range of them, as in 200..299") do |value|
        numbers = (Range === value) ? [value.begin, value.end] : [value]
        (numbers.all? { |one| Integer === one && one.between?(200, 599) }) ? value : ValueType::REFUSED
      end
      PATH = ValueType.new("a path that begins with \"/\"") do |value|
        FieldCheck.target("GET", value)
      rescue InvalidRequest, TypeError
        ValueType::REFUSED
      end
      HOST = ValueType.new("a host and perhaps a port") do |value|
        (String === value && Upstream::AUTHORITY.match?(value)) ? value : ValueType::REFUSED
      end
      TYPES = {
        path: PATH, host: HOST.optional, every: ValueType.seconds, timeout: ValueType.seconds,
        fall: ValueType.count(least: 1), rise: ValueType.count(least: 1), status: STATUS
      }.freeze
      # Bytes of content that are read, so that the upstream can end its response.
      MOST = 64 << 10
      private_constant :STATUS, :PATH, :HOST, :TYPES, :MOST

      # @param values [Hash{Symbol=>Object}] what differs from the defaults
      # @return [Probe]
      # @raise [ConfigurationError]
      def self.build(values)
        unknown = values.keys.find { |name| !TYPES.key?(name) }
        return new(**values) unless unknown
        raise ConfigurationError, "health: has no option #{unknown.inspect}. Its options are #{TYPES.keys.join(", ")}"
      end

      # @raise [ConfigurationError]
      def initialize(path: "/", host: nil, every: 5, timeout: 2, fall: 3, rise: 2, status: 200..299)
        values = {path:, host:, every:, timeout:, fall:, rise:, status:}
        super(**values.to_h { |name, value| [name, TYPES.fetch(name).setting(value) { "health: #{name}:" }] })
      end

      # @param pool [ConnectionPool] of the upstream
      # @return [String, nil] why it has failed
      def call(pool)
        request = Request.new("GET", path, fields: {"user-agent" => "neverblock-proxy"}, host:)
        Exchange.new(pool, request, timeouts:).call do |response|
          rest(response)
          "its status is #{response.status}" unless status === response.status
        end
      rescue Proxy::Error => error
        error.message
      end

      private

      def timeouts = Timeouts.new(connect: timeout, first_byte: timeout, idle: timeout, total: timeout)

      def rest(response)
        read = 0
        response.each { |piece| break if (read += piece.bytesize) > MOST }
      end
    end
  end
end
