# frozen_string_literal: true

module NeverBlock
  class Server
    # An address to listen on, parsed from a bind URI.
    #
    #   Address.parse("tcp://[::1]:3000").port                     # => 3000
    #   Address.parse("unix:///run/app.sock?mode=0660").mode       # => 0660
    #   Address.parse("tcp://[::]:3000?proxy=required").proxy      # => true
    #
    # @!attribute [r] host
    #   @return [String, nil] a name or an IP address, without brackets; nil for a unix socket
    # @!attribute [r] port
    #   @return [Integer, nil] 0: any free port
    # @!attribute [r] path
    #   @return [String, nil] absolute; nil for TCP
    # @!attribute [r] mode
    #   @return [Integer, nil] the socket file's permissions
    # @!attribute [r] owner
    #   @return [String, nil]
    # @!attribute [r] group
    #   @return [String, nil]
    # @!attribute [r] proxy
    #   @return [Boolean] whether each connection begins with a PROXY header
    Address = Data.define(:host, :port, :path, :mode, :owner, :group, :proxy) do
      # @param text [String]
      # @return [Address]
      # @raise [Address::Malformed] with the reason
      def self.parse(text)
        case text
        when %r{\Atcp://(.*)\z}m then tcp($1)
        when %r{\Aunix:(?://)?(.*)\z}m then unix($1)
        when %r{\A(?:ssl|tls|https)://}m then raise Address::Malformed, Address::NO_TLS
        when %r{\A(\w+)://} then raise Address::Malformed, "there is no #{$1}://; use tcp:// or unix://"
        else raise Address::Malformed, "it begins with neither tcp:// nor unix://"
        end
      end

      def self.tcp(rest)
        place, query = rest.split("?", 2)
        match = place.to_s.match(%r{\A(?:\[(\h*:[\h:.]+(?:%\w+)?)\]|([\w.-]+)):(\d{1,5})/?\z})
        host, port = match && [match[1] || match[2], match[3].to_i]
        raise Address::Malformed, "tcp:// must be followed by HOST:PORT, with an IPv6 address in brackets" unless host
        raise Address::Malformed, "port #{port} is above 65535" if port > 65_535
        new(host:, port:, path: nil, mode: nil, owner: nil, group: nil,
          **options(query, "an address of TCP has proxy=", %i[proxy]))
      end
      private_class_method :tcp

      def self.unix(rest)
        path, query = rest.split("?", 2)
        if path.to_s.delete("/").empty? || path.include?("\0")
          raise Address::Malformed, "unix:// must be followed by a path"
        end
        options = options(query, "a unix socket has mode=, owner=, group= and proxy=", %i[mode owner group proxy])
        mode = options[:mode]
        unless mode.nil? || mode.match?(/\A0?[0-7]{3}\z/)
          raise Address::Malformed, "mode #{mode} is not octal, as 0660 is"
        end
        unless path.start_with?("/")
          raise Address::Malformed, "#{path} is not an absolute path. Write unix://#{File.expand_path(path)}"
        end
        path = File.expand_path(path)
        if path.bytesize > Address::LONGEST_PATH
          raise Address::Malformed,
            "the path has #{path.bytesize} bytes, and a socket's can have #{Address::LONGEST_PATH}"
        end
        new(host: nil, port: nil, path:, mode: mode&.to_i(8), owner: options[:owner], group: options[:group],
          proxy: options[:proxy])
      end
      private_class_method :unix

      def self.options(query, words, known)
        options = query.to_s.split("&").to_h do |pair|
          pair.split("=", 2).then { |name, value| [name.to_sym, value.to_s] }
        end
        unknown = options.keys - known
        raise Address::Malformed, "#{words}, but no #{unknown.first}=" if unknown.any?
        proxy = options.fetch(:proxy, "off")
        unless %w[required off].include?(proxy)
          raise Address::Malformed, "proxy=#{proxy} is neither proxy=required nor proxy=off"
        end
        options.merge(proxy: proxy == "required")
      end
      private_class_method :options

      # @return [Boolean]
      def unix? = !path.nil?

      # @param port [Integer] the actual port, if it is 0
      # @return [String] the URI
      def to_s(port = self.port)
        place = unix? ? "unix://#{path}" : "tcp://#{bracketed_host}:#{port}"
        proxy ? "#{place}#{Address::PROXY}" : place
      end
      alias_method :inspect, :to_s

      private

      def bracketed_host = host.include?(":") ? "[#{host}]" : host
    end

    # An invalid bind URI; the message has the reason.
    Address::Malformed = Class.new(ArgumentError)

    # What an address for TLS is answered with.
    Address::NO_TLS = "NeverBlock has neither TLS nor HTTP/2. Put nginx, HAProxy or Thruster in front of it, and " \
      "listen on tcp:// or unix:// for that one: docs/server.md#tls-and-http2"

    # The end of a URI whose connections begin with a PROXY header; processes that hand sockets over keep it.
    Address::PROXY = "?proxy=required"

    # Bytes that fit into sockaddr_un on every system: its path has 104 on BSD and macOS, 108 on Linux.
    Address::LONGEST_PATH = 103
  end
end
