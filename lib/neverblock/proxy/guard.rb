# frozen_string_literal: true

module NeverBlock
  class Proxy
    # Refuses what is not for an upstream, before a cache or the proxy looks at it: other hosts, loops, CONNECT, TRACE.
    #
    #   Guard.new(settings, via).call(env)    # => nil: the request may go on
    #                                         # => :loop, a name in Failure::REFUSALS; or :last, for Max-Forwards: 0
    # @api private
    class Guard
      ABSOLUTE = %r{\A[A-Za-z][A-Za-z0-9+.-]*://([^/?#]*)}
      PORT = /:\d*\z/
      NEVER = %w[CONNECT TRACE].freeze
      NONE_LEFT = /\A0+\z/
      private_constant :ABSOLUTE, :PORT, :NEVER, :NONE_LEFT

      # @param settings [Settings]
      # @param via [Via]
      def initialize(settings, via)
        @hosts = settings.hosts
        @via = via
      end

      # @param env [Hash] Rack's
      # @return [Symbol, nil]
      def call(env)
        return :method if NEVER.include?(env["REQUEST_METHOD"])
        return :authority if foreign?(env["REQUEST_URI"], env["HTTP_HOST"])
        return :misdirected if @hosts && !served?(env["HTTP_HOST"])
        return :loop if @via.loop?(env["HTTP_VIA"])
        :last if env["REQUEST_METHOD"] == "OPTIONS" && NONE_LEFT.match?(env["HTTP_MAX_FORWARDS"])
      end

      private

      def foreign?(target, host)
        return false if target.nil? || target.start_with?("/")
        authority = target[ABSOLUTE, 1] or return false
        host.nil? || plain(authority).casecmp(plain(host)) != 0
      end

      # Our server has compared them already, with the scheme's own port (RFC 9112, section 3.2.2).
      def plain(authority) = authority.sub(/:(?:80|443)?\z/, "")

      def served?(host)
        return false if host.nil?
        host = host.downcase
        @hosts.include?(host) || @hosts.include?(host.sub(PORT, ""))
      end
    end
  end
end
