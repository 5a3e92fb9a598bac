# frozen_string_literal: true

require "ipaddr"

module NeverBlock
  class Server
    # Addresses and networks of proxies, as `trusted_proxies` names them.
    #
    #   Network.read("10.0.0.0/8")      # => "10.0.0.0/8"
    #   Network.to_core("10.0.0.0/8")   # => ["\x00…\xFF\xFF\n\x00\x00\x00", 104]
    # @api private
    module Network
      # Whoever connects through a unix socket.
      UNIX = "unix"
      # IPv4 within IPv6 (RFC 4291 §2.5.5.2): the core knows one length of address.
      MAPPED = ("\0".b * 10 + "\xFF\xFF".b).freeze

      # @param value [String, IPAddr]
      # @return [String, nil] nil: it is none
      def self.read(value)
        return value if value == UNIX
        value = "#{value}/#{value.prefix}" if IPAddr === value
        return unless String === value && !value.include?("%") # zones are of one machine
        IPAddr.new(value)
        value
      rescue IPAddr::Error
        nil
      end

      # @param text [String]
      # @return [Array(String, Integer)] 16 bytes, and how many of their bits count
      def self.to_core(text)
        address = IPAddr.new(text)
        address.ipv4? ? [MAPPED + address.hton, 96 + address.prefix] : [address.hton, address.prefix]
      end
    end
  end
end
