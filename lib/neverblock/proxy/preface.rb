# frozen_string_literal: true

require "ipaddr"

module NeverBlock
  class Proxy
    # The header of the PROXY protocol: the first bytes of a connection to an upstream, which name the client
    # (https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt). Version 1 is a line of text, version 2 binary.
    #
    #   Preface.call(1, "192.0.2.7")   # => "PROXY TCP4 192.0.2.7 0.0.0.0 0 0\r\n"
    #   Preface.call(1, nil)           # => "PROXY UNKNOWN\r\n"
    #
    # Rack tells neither the client's port nor the address that it has connected to: they are zeros.
    # @api private
    module Preface
      VERSIONS = [1, 2].freeze
      SIGNATURE = "\r\n\r\n\0\r\nQUIT\n".b.freeze
      # Version 2 with the commands LOCAL and PROXY; families with TCP (section 2.2).
      LOCAL, PROXY = 0x20, 0x21
      TCP4, TCP6 = 0x11, 0x21
      private_constant :SIGNATURE, :LOCAL, :PROXY, :TCP4, :TCP6

      # @param version [Integer] 1 or 2
      # @param address [String, nil] the client's; nil: there is no client, as of a check. A text that is no address, as
      #   of a unix socket or of a response for many clients, becomes {Forwarded::NOBODY}: with UNKNOWN the upstream
      #   would go by the proxy's own address
      # @return [String]
      def self.call(version, address)
        address = parse(address)
        (version == 1) ? line(address) : binary(address)
      end

      # @param text [String, nil]
      # @return [IPAddr, nil]
      def self.parse(text)
        return if text.nil?
        address = IPAddr.new(text)
        address.ipv4_mapped? ? address.native : address
      rescue IPAddr::Error
        IPAddr.new(Forwarded::NOBODY)
      end

      def self.line(address)
        return "PROXY UNKNOWN\r\n" unless address
        address.ipv4? ? "PROXY TCP4 #{address} 0.0.0.0 0 0\r\n" : "PROXY TCP6 #{address} :: 0 0\r\n"
      end

      def self.binary(address)
        return [SIGNATURE, LOCAL, 0, 0].pack("a12CCn") unless address
        from = address.hton
        addresses = "#{from}#{"\0" * from.bytesize}\0\0\0\0".b
        [SIGNATURE, PROXY, address.ipv4? ? TCP4 : TCP6, addresses.bytesize].pack("a12CCn") << addresses
      end

      private_class_method :parse, :line, :binary
    end
  end
end
