# frozen_string_literal: true

require "socket"
require_relative "monotonic_clock"

module NeverBlock
  # Connects to a host by name as in RFC 8305 ("Happy Eyeballs") and parks the calling fiber only. It looks up
  # both address families at once and tries their addresses in turn, each with a head start. The first connected
  # socket wins; the others are closed.
  #
  #   NeverBlock.run do
  #     socket = NeverBlock::Connector.new(Fiber.scheduler, "www.example.com", 80).connect
  #   end
  #
  # In our loops TCPSocket.new uses it for hosts by name. The arguments, time limits and errors are those of
  # TCPSocket.new. `connector/failure.rb` words the errors.
  class Connector
    include MonotonicClock

    # Seconds that IPv4 addresses wait for the IPv6 look-up (RFC 8305, section 8).
    RESOLUTION_DELAY = 0.05
    # Seconds from the start of one attempt to the next (RFC 8305, section 8).
    ATTEMPT_DELAY = 0.25
    # Address families in order of preference.
    FAMILIES = [Socket::AF_INET6, Socket::AF_INET].freeze

    # @param scheduler [Scheduler] the loop of the calling fiber
    # @param host [String]
    # @param port [Integer, String] a number or the name of a service
    # @param local_host [String, nil]
    # @param local_port [Integer, String, nil]
    # @param resolv_timeout [Numeric, nil] seconds for the look-ups
    # @param connect_timeout [Numeric, nil] seconds from the start of the last attempt
    # @param open_timeout [Numeric, nil] seconds in total
    def initialize(scheduler, host, port, local_host = nil, local_port = nil,
      resolv_timeout: nil, connect_timeout: nil, open_timeout: nil)
      @scheduler = scheduler
      @host = host
      @number = port.to_i if port.to_s.match?(/\A\d+\z/) && port.to_i <= 65_535
      @service = port.to_s unless @number
      @local = [local_host, local_port]
      @resolve_by = after(resolv_timeout)
      @connect_timeout = connect_timeout
      @open_by = after(open_timeout)
      @failure = Failure.new(host, port, *@local)
      @events = Thread::Queue.new
      @look_ups = {} # family => LookUp
      @candidates = FAMILIES.to_h { |family| [family, []] }
      @attempts = {} # socket => its waiting task; nil if the caller itself waits
    end

    # @return [Socket] connected
    # @raise [SystemCallError, IO::TimeoutError] from the last attempt, or a time limit
    # @raise [Socket::ResolutionError] if no family has an address
    def connect
      look_up
      until @winner
        if may_launch?
          launch
        elsif candidates? || underway?
          wait
        else
          raise @failure.exception
        end
      end
      @winner
    ensure
      stop
    end

    private

    # Starts the look-ups. A local address restricts the families.
    def look_up
      @local_addresses = Addrinfo.getaddrinfo(*@local, nil, :STREAM) if @local.any?
      families = @local_addresses ? FAMILIES & @local_addresses.map(&:afamily) : FAMILIES
      @failure.only_family if families.one?
      families.each do |family|
        @look_ups[family] = @scheduler.subscribe(@events, @host, @service, family)
      end
    end

    def candidates? = @candidates.any? { |_, addresses| addresses.any? }

    def underway? = @look_ups.any? || @attempts.any?

    def may_launch? = candidates? && !ahead?(@head_start) && !ahead?(@gap)

    def launch
      candidate = next_candidate
      alone = !candidates? && !underway?
      socket = open_socket(candidate)
      if socket.connect_nonblock(candidate, exception: false) == 0
        @winner = socket
      else
        @gap = after(ATTEMPT_DELAY)
        @connect_by = after(@connect_timeout) unless candidates?
        @failure.only_attempt = candidate if alone
        @attempts[socket] = (watch(socket) unless alone)
      end
    rescue SystemCallError => error
      socket&.close
      @failure.attempt(error)
    end

    # Alternates between the families, IPv6 first.
    def next_candidate
      @family = FAMILIES.find { |family| family != @family && @candidates[family].any? } || @family
      @candidates[@family].shift
    end

    def open_socket(candidate)
      @failure.call = "socket(2)"
      socket = Socket.new(candidate.afamily, :STREAM)
      if (local_address = @local_addresses&.find { |address| address.afamily == candidate.afamily })
        @failure.call = "bind(2)"
        socket.setsockopt(:SOCKET, :REUSEADDR, true)
        socket.bind(local_address)
      end
      @failure.call = "connect(2)"
      socket
    rescue SystemCallError
      socket&.close
      raise
    end

    # The task owns its socket once the race is over, because the descriptor may be closed only
    # after the task has left its wait.
    def watch(socket)
      @scheduler.background do
        socket.wait_writable
        @events << [socket, error_of(socket)]
      rescue Cancelled, IOError, SystemCallError => error
        @events << [socket, error]
      ensure
        socket.close if @over && !socket.equal?(@winner)
      end
    end

    def error_of(socket)
      errno = socket.getsockopt(:SOCKET, :ERROR).int
      SystemCallError.new(nil, errno) unless errno.zero?
    end

    def wait
      return wait_in_place(@attempts.keys.first) if @attempts.value?(nil)
      limit = candidates? ? [@head_start, @gap].compact.max : patience
      limit = [limit, @open_by].compact.min
      event = @events.pop(timeout: limit && [limit - now, 0].max)
      return event.first.is_a?(Socket) ? attempted(*event) : resolved(*event) if event
      raise @failure.timeout if passed?(@open_by) || (!candidates? && passed?(patience))
    end

    # Waits in the caller: a single attempt needs no task.
    def wait_in_place(socket)
      limit = [@connect_by, @open_by].compact.min
      raise @failure.timeout unless socket.wait_writable(limit && [limit - now, 0].max)
      attempted(socket, error_of(socket))
    end

    # The latest time to wait for when nothing is left to start. If both look-ups and attempts are pending,
    # both limits must have passed.
    def patience
      limits = []
      limits << @resolve_by if @look_ups.any?
      limits << @connect_by if @attempts.any?
      limits.max unless limits.include?(nil)
    end

    def attempted(socket, error)
      @attempts.delete(socket)
      return @winner = socket unless error
      socket.close
      @gap = nil
      @failure.attempt(error)
    end

    # Records the result of a look-up. IPv4 addresses wait briefly for the IPv6 look-up.
    def resolved(look_up, result)
      family = @look_ups.key(look_up)
      @look_ups.delete(family)
      if result.is_a?(Exception)
        @failure.resolution(family, result) unless @resolved
      else
        @resolved = true
        @candidates[family] = result.map { |_, sockaddr| Addrinfo.new(with_port(sockaddr), family, :STREAM) }
      end
      @head_start = (after(RESOLUTION_DELAY) if @look_ups.key?(Socket::AF_INET6))
    end

    # Sets the port, which has the same offset in both families' addresses.
    def with_port(sockaddr)
      return sockaddr unless @number
      sockaddr.dup.tap { |copy| copy[2, 2] = [@number].pack("n") }
    end

    def stop
      @over = true
      @look_ups.each_value { |look_up| look_up.unsubscribe(@events) }
      @attempts.each { |socket, task| task&.alive? ? task.cancel : socket.close }
    end

    def after(seconds) = seconds && now + seconds

    def passed?(time) = time && now >= time

    def ahead?(time) = time && now < time
  end
end

require_relative "connector/failure"
