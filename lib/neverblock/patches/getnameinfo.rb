# frozen_string_literal: true

module NeverBlock
  module Patches
    # Looking up the name of an address (getnameinfo(3)) stops the whole thread; Ruby
    # has no hook for it. In a task a native thread waits.
    #
    #   Addrinfo.tcp("192.0.2.1", 443).getnameinfo   # => ["www.example.com", "https"]
    #   socket.peeraddr(true)
    #
    # Calls that only print numbers never wait, and are left alone.
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

      # IPSocket#addr, #peeraddr and #recvfrom where they are to tell names, which is
      # not the default: see BasicSocket#do_not_reverse_lookup.
      module OfIPSocket
        def addr(*reverse_lookup)
          scheduler = Getnameinfo.scheduler(self, *reverse_lookup)
          scheduler ? Getnameinfo.named(scheduler, super(false), getsockname) : super
        end

        def peeraddr(*reverse_lookup)
          scheduler = Getnameinfo.scheduler(self, *reverse_lookup)
          scheduler ? Getnameinfo.named(scheduler, super(false), getpeername) : super
        end

        # The flag is this socket's only way to say that the address is enough, so it is
        # set while no other fiber can run: for a message that is already there.
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
        # Anything but an Integer is left to Ruby to refuse.
        # @return [Boolean] whether something is looked up, given these flags
        def waits?(flags) = flags.nil? || (flags.is_a?(Integer) && !flags.allbits?(NUMERIC))

        # @return [Scheduler, nil] ours, if the socket has to tell names
        def scheduler(socket, reverse_lookup = nil, *)
          by_name = reverse_lookup.nil? ? !socket.do_not_reverse_lookup : [true, :hostname].include?(reverse_lookup)
          Scheduler.current if by_name
        end

        # @param address [Array] family, port, and twice the number
        # @return [Array] the same with the name as the third, if there is one
        def named(scheduler, address, sockaddr)
          address.dup.tap { |named| named[2] = scheduler.getnameinfo(sockaddr, ::Socket::NI_NUMERICSERV).first }
        rescue SocketError, SystemCallError
          address
        end

        # @param address [String, Addrinfo, Array] as Socket.getnameinfo takes it
        # @return [Array<String>, nil] nil if Ruby is to refuse it
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
