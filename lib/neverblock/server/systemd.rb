# frozen_string_literal: true

require "socket"

module NeverBlock
  class Server
    # Speaks with systemd, where it has started us: tells it when we are ready (Type=notify), that we still live
    # (WatchdogSec=), and takes the sockets that it has opened (a .socket unit).
    #
    #   systemd = Systemd.new(ENV)
    #   systemd.tell("READY=1")
    #   systemd.watchdog          # => 15.0, seconds between two signs of life; nil: none are asked for
    #
    # The protocols are those of sd_notify(3) and sd_listen_fds(3).
    # @api private
    class Systemd
      # The first descriptor that is passed.
      FIRST = 3

      # @param env [Hash] whose variables are taken away, so that the app's programs do not speak for us
      def initialize(env)
        @environment = env.slice("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
        @socket = env.delete("NOTIFY_SOCKET")
        usec, watched = env.delete("WATCHDOG_USEC"), env.delete("WATCHDOG_PID")
        @interval = usec.to_i / 1e6 / 2 if usec && (watched.nil? || watched.to_i == Process.pid)
        count, pid = env.delete("LISTEN_FDS"), env.delete("LISTEN_PID")
        env.delete("LISTEN_FDNAMES")
        @count = (pid.to_i == Process.pid) ? count.to_i : 0
      end

      # @return [Hash{String=>String}] for the program that follows this one in its process
      attr_reader :environment

      # @return [Float, nil]
      def watchdog = @socket && @interval

      # @return [Array<Integer>] descriptors of listening sockets
      def descriptors = Array.new(@count) { |index| FIRST + index }

      # @param lines [Array<String>] such as "READY=1", "STATUS=…"
      # @return [Boolean] whether anybody was told
      def tell(*lines)
        return false unless @socket
        path = @socket.start_with?("@") ? "\0#{@socket[1..]}" : @socket
        socket = Socket.new(:UNIX, :DGRAM)
        socket.connect(Addrinfo.unix(path))
        socket.send(lines.join("\n"), 0)
        true
      rescue SystemCallError
        false # systemd decides what to make of our silence
      ensure
        socket&.close
      end
    end
  end
end
