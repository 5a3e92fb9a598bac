# frozen_string_literal: true

require "digest"
require "socket"

module NeverBlock
  class Proxy
    # The proxy's own name in Via (RFC 9110, section 7.6.3), by which it finds its own requests again.
    #
    #   via = Via.new(nil, upstreams)
    #   via.loop?("1.1 other, 1.1 neverblock-3f9a01c2")    # => true
    #   via.add("1.1 other")                               # => "1.1 other, 1.1 neverblock-3f9a01c2"
    # @api private
    class Via
      # A comment in Via may hold a comma; the received-by is the second word of each member.
      COMMENT = /\([^()]*\)/
      # Members of a chain. A longer one is a loop through proxies that don't say so.
      MOST = 50
      private_constant :COMMENT, :MOST

      # @return [String] the pseudonym
      attr_reader :name

      # The default is the same in all workers of a host, and another one for other upstreams: so that two proxies in a
      # row are no loop.
      # @param name [String, nil] a pseudonym
      # @param urls [Array<String>] the upstreams' addresses
      def initialize(name, urls)
        @name = (name || "neverblock-#{Digest::SHA256.hexdigest([Socket.gethostname, *urls].join("\n"))[0, 8]}").freeze
        @own = "1.1 #{@name}".freeze
      end

      # @param value [String, nil] that has come
      # @return [Boolean] whether the request has been here before
      def loop?(value)
        return false if value.nil?
        members = value.gsub(COMMENT, "").split(",")
        members.size > MOST || members.any? { |member| member.split[1]&.casecmp?(@name) }
      end

      # @param value [String, nil] that has come
      # @return [String] with this proxy
      def add(value) = value.nil? ? @own : "#{value}, #{@own}"
    end
  end
end
