# frozen_string_literal: true

module NeverBlock
  module Patches
    # Supports services by name, and link-local addresses with an interface, in look-ups. Ruby passes a scheduler only
    # the host and parses the result as plain numbers, so these two fail in a fiber of any scheduler.
    #
    #   Addrinfo.tcp("www.example.com", "https")
    #   TCPServer.new("fe80::1%eth0", 8080)
    #
    # In a task the patch looks the service's number up first. For a scoped address it calls Ruby as if there were no
    # scheduler, because such a look-up doesn't wait. Connector handles both for TCPSocket.new.
    module Getaddrinfo
      SCOPED = /\A\h*:[\h:.]*%/
      private_constant :SCOPED

      def self.targets
        {::Addrinfo.singleton_class => OfAddrinfo, ::Socket.singleton_class => OfSocket,
         ::TCPSocket => OfTCPSocket, ::TCPServer => OfTCPServer, ::UDPSocket => OfUDPSocket}
      end

      def self.needed? = true

      # Addrinfo.getaddrinfo, ip, tcp and udp
      module OfAddrinfo
        def getaddrinfo(*arguments, **options)
          host, service, *rest = arguments
          return super unless Getaddrinfo.help?(host, service)
          Getaddrinfo.help(host, service) { |number| super(host, number, *rest, **options) }
        end

        def ip(host)
          Getaddrinfo.help?(host) ? Getaddrinfo.help(host) { super } : super
        end

        def tcp(host, service)
          return super unless Getaddrinfo.help?(host, service)
          Getaddrinfo.help(host, service) { |number| super(host, number) }
        end

        def udp(host, service)
          return super unless Getaddrinfo.help?(host, service)
          Getaddrinfo.help(host, service, :DGRAM) { |number| super(host, number) }
        end
      end

      # Socket.getaddrinfo, sockaddr_in and pack_sockaddr_in
      module OfSocket
        def getaddrinfo(*arguments)
          host, service, *rest = arguments
          return super unless Getaddrinfo.help?(host, service)
          Getaddrinfo.help(host, service) { |number| super(host, number, *rest) }
        end

        def sockaddr_in(service, host)
          return super unless Getaddrinfo.help?(host, service)
          Getaddrinfo.help(host, service) { |number| super(number, host) }
        end

        def pack_sockaddr_in(service, host)
          return super unless Getaddrinfo.help?(host, service)
          Getaddrinfo.help(host, service) { |number| super(number, host) }
        end
      end

      # TCPSocket.new
      module OfTCPSocket
        def initialize(*arguments, **options)
          host, service, *local = arguments
          if Getaddrinfo.help?(nil, service)
            Getaddrinfo.help(nil, service, :STREAM) { |number| super(host, number, *local, **options) }
          else
            super
          end
        end
      end

      # TCPServer.new
      module OfTCPServer
        def initialize(*arguments)
          *host, service = arguments
          if Getaddrinfo.help?(host.first, service)
            Getaddrinfo.help(host.first, service) { |number| super(*host, number) }
          else
            super
          end
        end
      end

      # UDPSocket#bind, #connect and #send
      module OfUDPSocket
        def bind(host, service)
          return super unless Getaddrinfo.help?(host, service)
          Getaddrinfo.help(host, service, :DGRAM) { |number| super(host, number) }
        end

        def connect(host, service)
          return super unless Getaddrinfo.help?(host, service)
          Getaddrinfo.help(host, service, :DGRAM) { |number| super(host, number) }
        end

        def send(*arguments)
          *message, host, service = arguments
          return super unless arguments.size == 4 && Getaddrinfo.help?(host, service)
          Getaddrinfo.help(host, service, :DGRAM) { |number| super(*message, host, number) }
        end
      end

      # @return [Boolean] whether Ruby alone would fail, inside one of our loops
      def self.help?(host, service = nil)
        (scoped?(host) || (service.is_a?(String) && service.match?(/\D/))) && Scheduler.current
      end

      # @param type [Symbol, nil] the socket's type; nil for any
      # @yieldparam service [Object] the service, with its number for a name
      def self.help(host, service = nil, type = nil)
        service = number(service, type) if service.is_a?(String)
        scoped?(host) ? Fiber.blocking { yield service } : yield(service)
      end

      def self.scoped?(host) = host.is_a?(String) && host.match?(SCOPED)
      private_class_method :scoped?

      # Reads a file of the system (/etc/services); no network query.
      # @raise [Socket::ResolutionError] if there is no such service
      def self.number(service, type)
        Fiber.blocking { ::Addrinfo.getaddrinfo(nil, service, nil, type).first.ip_port }
      end
      private_class_method :number
    end
  end
end
