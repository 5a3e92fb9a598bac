# frozen_string_literal: true

require "socket"
require_relative "../errors"

module NeverBlock
  class Server
    # Talks to systemd if it has started the server: reports readiness (Type=notify) and liveness (WatchdogSec=), and
    # takes the sockets of a .socket unit.
    #
    #   systemd = Systemd.new(ENV)
    #   systemd.tell("READY=1")
    #   systemd.watchdog          # => 15.0, seconds between two reports; nil: no watchdog
    #   systemd.sockets           # => [#<Socket:fd 3>]
    #
    # The protocols are those of sd_notify(3) and sd_listen_fds(3).
    # @api private
    class Systemd
      # The first descriptor that is passed.
      FIRST = 3

      # @param env [Hash] the environment; systemd's variables are deleted, so that programs of the app do not use them
      def initialize(env)
        @environment = env.slice("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
        @socket = env.delete("NOTIFY_SOCKET")
        usec, watched = env.delete("WATCHDOG_USEC"), env.delete("WATCHDOG_PID")
        @interval = usec.to_i / 1e6 / 2 if usec && (watched.nil? || watched.to_i == Process.pid)
        count, pid = env.delete("LISTEN_FDS"), env.delete("LISTEN_PID")
        @names = env.delete("LISTEN_FDNAMES").to_s.split(":")
        @count = (pid.to_i == Process.pid) ? count.to_i : 0
      end

      # @return [Hash{String=>String}] variables for the next program in this process
      attr_reader :environment

      # @return [Float, nil]
      def watchdog = @socket && @interval

      # @return [Array<Socket>] listening ones; programs that the app starts do not inherit them
      # @raise [BindError] if a descriptor is something else
      def sockets
        @sockets ||= Array.new(@count) { |index| listening(FIRST + index, @names[index]) }
      end

      # @param lines [Array<String>] such as "READY=1", "STATUS=…"
      # @return [Boolean] whether systemd was told
      def tell(*lines)
        return false unless @socket
        path = @socket.start_with?("@") ? "\0#{@socket[1..]}" : @socket
        socket = Socket.new(:UNIX, :DGRAM)
        socket.connect(Addrinfo.unix(path))
        socket.send(lines.join("\n"), 0)
        true
      rescue SystemCallError
        false # systemd's own timeout decides what follows
      ensure
        socket&.close
      end

      private

      def listening(number, name)
        socket = Socket.for_fd(number)
        socket.close_on_exec = true
        if socket.getsockopt(:SOCKET, :TYPE).int == Socket::SOCK_STREAM && socket.getsockopt(:SOCKET, :ACCEPTCONN).bool
          return socket
        end
        raise BindError,
          "descriptor #{number}#{" (#{name})" if name}, which systemd hands over, is not a listening stream socket. " \
          "The .socket unit is to have ListenStream= and Accept=no"
      rescue SystemCallError, ArgumentError => error # ArgumentError: Ruby itself uses that number
        raise BindError,
          "descriptor #{number}#{" (#{name})" if name}, which LISTEN_FDS promises, can't be used: #{error.message}. " \
          "Is another program between systemd and this one?"
      end
    end
  end
end
