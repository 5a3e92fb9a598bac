# frozen_string_literal: true

require "ipaddr"

module NeverBlock
  class Server
    # Parses the addresses and networks of proxies that `trusted_proxies` names.
    #
    #   TrustedNetworks.read("10.0.0.0/8")      # => "10.0.0.0/8"
    #   TrustedNetworks.to_core("10.0.0.0/8")   # => ["\x00…\xFF\xFF\n\x00\x00\x00", 104]
    # @api private
    module TrustedNetworks
      # Clients that connect through a unix socket.
      UNIX = "unix"
      # IPv4 within IPv6 (RFC 4291 §2.5.5.2): the core compares addresses of one length.
      MAPPED = ("\0".b * 10 + "\xFF\xFF".b).freeze

      # @param value [String, IPAddr]
      # @return [String, nil] nil: neither an address nor a network
      def self.read(value)
        return value if value == UNIX
        value = "#{value}/#{value.prefix}" if IPAddr === value
        return unless String === value && !value.include?("%") # a zone is valid on one machine only
        IPAddr.new(value)
        value
      rescue IPAddr::Error
        nil
      end

      # @param text [String]
      # @return [Array(String, Integer)] 16 bytes, and the number of their bits that are compared
      def self.to_core(text)
        address = IPAddr.new(text)
        address.ipv4? ? [MAPPED + address.hton, 96 + address.prefix] : [address.hton, address.prefix]
      end
    end
  end
end
