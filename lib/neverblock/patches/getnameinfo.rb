# frozen_string_literal: true

module NeverBlock
  module Patches
    # Makes look-ups of an address's name (getnameinfo(3)) park the fiber while a native thread
    # waits. Ruby has no hook for them.
    #
    #   Addrinfo.tcp("192.0.2.1", 443).getnameinfo   # => ["www.example.com", "https"]
    #   socket.peeraddr(true)
    #
    # Calls that only format numbers never wait, and use the original method.
    module Getnameinfo
      NUMERIC = ::Socket::NI_NUMERICHOST | ::Socket::NI_NUMERICSERV
      private_constant :NUMERIC

      def self.targets
        {::Addrinfo => OfAddrinfo, ::Socket.singleton_class => OfSocket, ::IPSocket => OfIPSocket}
      end

      def self.needed? = true

      # Addrinfo#getnameinfo
      module OfAddrinfo
        def getnameinfo(*arguments)
          flags = arguments.first
          return super unless arguments.size < 2 && Getnameinfo.waits?(flags) && (scheduler = Scheduler.current)
          flags = (socktype == ::Socket::SOCK_DGRAM) ? flags.to_i | ::Socket::NI_DGRAM : flags.to_i
          scheduler.getnameinfo(to_sockaddr, flags)
        end
      end

      # Socket.getnameinfo
      module OfSocket
        def getnameinfo(*arguments)
          address, flags, surplus = arguments
          return super unless surplus.nil? && Getnameinfo.waits?(flags) && (scheduler = Scheduler.current)
          return super unless (sockaddrs = Getnameinfo.sockaddrs(address, flags.to_i))
          names = sockaddrs.map { |sockaddr| scheduler.getnameinfo(sockaddr, flags.to_i) }.uniq
          raise SocketError, "sockaddr resolved to multiple nodename" if names.size > 1
          names.first
        end
      end

      # IPSocket#addr, #peeraddr and #recvfrom with reverse look-up, which is not the default: see
      # BasicSocket#do_not_reverse_lookup.
      module OfIPSocket
        def addr(*reverse_lookup)
          scheduler = Getnameinfo.scheduler(self, *reverse_lookup)
          scheduler ? Getnameinfo.named(scheduler, super(false), getsockname) : super
        end

        def peeraddr(*reverse_lookup)
          scheduler = Getnameinfo.scheduler(self, *reverse_lookup)
          scheduler ? Getnameinfo.named(scheduler, super(false), getpeername) : super
        end

        # Only this flag makes the original method skip the look-up. It is set for a message that has arrived already,
        # while no other fiber can run.
        def recvfrom(...)
          return super unless (scheduler = Getnameinfo.scheduler(self))
          begin
            wait_readable
            self.do_not_reverse_lookup = true
            message, address = super
          ensure
            self.do_not_reverse_lookup = false
          end
          address &&= Getnameinfo.named(scheduler, address, ::Socket.sockaddr_in(address[1], address[3]))
          [message, address]
        end
      end

      class << self
        # Leaves other types than Integer to the original method, which raises.
        # @return [Boolean] whether a call with these flags looks a name up
        def waits?(flags) = flags.nil? || (flags.is_a?(Integer) && !flags.allbits?(NUMERIC))

        # @return [Scheduler, nil] the loop's scheduler, if the socket looks names up
        def scheduler(socket, reverse_lookup = nil, *)
          by_name = reverse_lookup.nil? ? !socket.do_not_reverse_lookup : [true, :hostname].include?(reverse_lookup)
          Scheduler.current if by_name
        end

        # @param address [Array] family, port, and the number twice
        # @return [Array] the same, with the name in the third place if there is one
        def named(scheduler, address, sockaddr)
          address.dup.tap { |named| named[2] = scheduler.getnameinfo(sockaddr, ::Socket::NI_NUMERICSERV).first }
        rescue SocketError, SystemCallError
          address
        end

        # @param address [String, Addrinfo, Array] the argument of Socket.getnameinfo
        # @return [Array<String>, nil] nil for an argument that the original method refuses
        def sockaddrs(address, flags)
          case address
          when String then [address]
          when ::Addrinfo then [address.to_sockaddr]
          when Array
            family, port, name, number = address
            type = flags.anybits?(::Socket::NI_DGRAM) ? :DGRAM : :STREAM
            ::Addrinfo.getaddrinfo(number || name, port, family, type).map(&:to_sockaddr) if address.size >= 3
          end
        end
      end
    end
  end
end
