# frozen_string_literal: true

module NeverBlock
  module Patches
    # From Ruby 3.4 on TCPSocket.new, and with it Net::HTTP, stops the whole thread while
    # it looks a name up and connects: its Happy Eyeballs is written in C without a
    # scheduler in mind (Ruby bug 21270). In a task Connector does the same in fibers.
    #
    #   NeverBlock.run { Net::HTTP.get(URI("http://www.example.com/")) }
    #
    # Socket.tcp_fast_fallback, which would switch Ruby's way off, is not touched. It and
    # `fast_fallback: false` mean what they always do: one address after the other.
    module TCPSocket
      # Scoped addresses (fe80::1%eth0) are not here: getaddrinfo(3) has to find the interface.
      ADDRESS = /\A(?:[\d.]+|[^%]*:[^%]*)\z/
      # What Ruby takes for the unspecified and the broadcast address.
      SPECIAL_HOSTS = ["", "<any>", "<broadcast>"].freeze
      # Ruby refuses what is longer.
      LONGEST_HOST = 1025
      LONGEST_SERVICE = 32
      LIMITS = (RUBY_VERSION < "4.0") ? %i[resolv_timeout connect_timeout] : %i[resolv_timeout connect_timeout open_timeout]
      private_constant :ADDRESS, :SPECIAL_HOSTS, :LONGEST_HOST, :LONGEST_SERVICE, :LIMITS

      def self.targets = {::TCPSocket => self}

      def self.needed? = ::Socket.respond_to?(:tcp_fast_fallback)

      def initialize(*arguments, **options)
        scheduler = Scheduler.current
        if scheduler.nil? || options.key?(:test_mode_settings) # by which Ruby's tests steer its own race
          super
        elsif TCPSocket.race?(*arguments, **options)
          TCPSocket.adopt(self, Connector.new(scheduler, *arguments, **options.except(:fast_fallback)).connect)
        else
          # Ruby's older way asks the scheduler for everything.
          super(*arguments, **options, fast_fallback: false)
        end
      end

      class << self
        # Whatever is unusual or wrong is left to Ruby to do or to refuse.
        # @return [Boolean] whether these arguments of TCPSocket.new are for Connector
        def race?(host = nil, port = nil, local_host = nil, local_port = nil, *surplus, **options)
          return false unless host.is_a?(String) && host.bytesize < LONGEST_HOST && !SPECIAL_HOSTS.include?(host)
          return false if surplus.any? || fixed?(local_port) || !race_asked_for?(**options)
          # In a fiber of any scheduler Ruby's own code takes plain numbers only.
          case port
          when 0..65_535 then !host.match?(ADDRESS)
          when Integer then true
          when String then port.bytesize.between?(1, LONGEST_SERVICE - 1) && !(host.match?(ADDRESS) && port.match?(/\A\d+\z/))
          end
        end

        # Makes an unborn socket the owner of another one's descriptor, in the state
        # that TCPSocket.new leaves it in.
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

        # Two attempts cannot share one local port.
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
