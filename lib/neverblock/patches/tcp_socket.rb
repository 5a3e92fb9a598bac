# frozen_string_literal: true

module NeverBlock
  module Patches
    # Makes TCPSocket.new by name, and so Net::HTTP, park the fiber. From Ruby 3.4 on its Happy Eyeballs is
    # in C and asks no scheduler, so the look-up and the connect stop the whole thread (Ruby bug 21270). In
    # a task Connector replaces it.
    #
    #   NeverBlock.run { Net::HTTP.get(URI("http://www.example.com/")) }
    #
    # Socket.tcp_fast_fallback is unchanged. With it off, or with `fast_fallback: false`, addresses are
    # tried one after another as usual.
    module TCPSocket
      # Matches plain addresses. A scoped address (fe80::1%eth0) isn't one, because
      # getaddrinfo(3) must find its interface.
      ADDRESS = /\A(?:[\d.]+|[^%]*:[^%]*)\z/
      # Names that Ruby uses for the unspecified and the broadcast address.
      SPECIAL_HOSTS = ["", "<any>", "<broadcast>"].freeze
      # Ruby refuses longer ones.
      LONGEST_HOST = 1025
      LONGEST_SERVICE = 32
      LIMITS = %i[resolv_timeout connect_timeout] + ((RUBY_VERSION < "4.0") ? [] : %i[open_timeout])
      private_constant :ADDRESS, :SPECIAL_HOSTS, :LONGEST_HOST, :LONGEST_SERVICE, :LIMITS

      def self.targets = {::TCPSocket => self}

      def self.needed? = ::Socket.respond_to?(:tcp_fast_fallback)

      def initialize(*arguments, **options)
        scheduler = Scheduler.current
        if scheduler.nil? || options.key?(:test_mode_settings) # an option for Ruby's own tests
          super
        elsif TCPSocket.race?(*arguments, **options)
          TCPSocket.adopt(self, Connector.new(scheduler, *arguments, **options.except(:fast_fallback)).connect)
        else
          # The older way of Ruby, which asks the scheduler for each wait.
          super(*arguments, **options, fast_fallback: false)
        end
      end

      class << self
        # Leaves unusual and invalid arguments to Ruby.
        # @return [Boolean] whether Connector handles these arguments of TCPSocket.new
        def race?(host = nil, port = nil, local_host = nil, local_port = nil, *surplus, **options)
          return false unless host.is_a?(String) && host.bytesize < LONGEST_HOST && !SPECIAL_HOSTS.include?(host)
          return false if surplus.any? || fixed?(local_port) || !race_asked_for?(**options)
          # In a fiber of any scheduler Ruby's own code accepts plain numbers only.
          case port
          when Integer then !port.between?(0, 65_535) || !host.match?(ADDRESS)
          when String
            port.bytesize.between?(1, LONGEST_SERVICE - 1) && !(host.match?(ADDRESS) && port.match?(/\A\d+\z/))
          end
        end

        # Gives a socket the descriptor of another one, and the state that TCPSocket.new sets.
        # @param socket [::TCPSocket] allocated, not initialized
        # @param connected [::Socket]
        # @return [void]
        def adopt(socket, connected)
          connected.autoclose = false
          ::IO.instance_method(:initialize).bind_call(socket, connected.fileno, "r+b")
          socket.binmode
          socket.sync = true
          socket.do_not_reverse_lookup = ::BasicSocket.do_not_reverse_lookup
        end

        private

        # Two attempts can't share one local port.
        def fixed?(port) = port && !["0", ""].include?(port.to_s)

        def race_asked_for?(fast_fallback: nil, **limits)
          return false unless fast_fallback.nil? ? ::Socket.tcp_fast_fallback != false : fast_fallback
          return false if limits.key?(:open_timeout) && limits.size > 1
          limits.all? do |name, seconds|
            LIMITS.include?(name) && (seconds.nil? || (seconds.is_a?(Numeric) && seconds.real? && seconds >= 0))
          end
        end
      end
    end
  end
end
