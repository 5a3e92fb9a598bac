# frozen_string_literal: true

require_relative "../runtime/value_type"
require_relative "address"

module NeverBlock
  class Server
    # The type of a directive's value: the server's own types, beside the general ones.
    #
    #   ValueType.paths.take("/up")    # => ["/up"]
    #   ValueType.count.take(3)        # => 3
    # @api private
    class ValueType < NeverBlock::ValueType
      # @return [ValueType] an address to listen on, kept as an {Address}
      def self.address
        new('an address, as "tcp://127.0.0.1:3000", "tcp://[::1]:3000" or "unix:///run/app.sock?mode=0660"') do |value|
          case value
          when Address then value
          when String then Address.parse(value)
          else REFUSED
          end
        rescue Address::Malformed => error
          raise Invalid, error.message
        end
      end

      # @return [ValueType] an address for probes. A path would be that of a proxy's checks
      def self.probes
        plain = address
        new(plain.words) do |value|
          plain.take(value)
        rescue Invalid => error
          raise unless value.start_with?("/")
          raise Invalid, "#{error.message}. For checks of upstreams write proxy options: " \
            "{health: {path: #{value.inspect}}}"
        end
      end

      # @return [ValueType] a path that a unix socket can have
      def self.socket_path
        new("a path") do |value|
          next REFUSED unless String === value && !value.strip.empty?
          path = File.expand_path(value)
          next value if path.bytesize <= Address::LONGEST_PATH
          raise Invalid, "the path #{path} has #{path.bytesize} bytes, " \
            "and a socket's can have #{Address::LONGEST_PATH}. Choose a shorter one"
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
    end
  end
end
