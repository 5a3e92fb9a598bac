# frozen_string_literal: true

require "socket"
require_relative "peer"

module NeverBlockTest
  # A server of a {Peer} on the unix socket "socket" in its folder. A subclass has a method `pid`, which asks it.
  class SocketServer
    # @yieldparam folder [String]
    # @yieldreturn [Array<String>] the command
    def initialize(**, &)
      @peer = Peer.start(**, &)
      @peer.until_ready { Peer.accepts?(path) }
    end

    # @return [String] of its socket
    def path = File.join(@peer.folder, "socket")

    # @param name [Symbol] of a signal: :KILL, :STOP, :CONT
    # @return [void]
    def signal(name) = Process.kill(name, pid)

    # @return [void]
    def stop = @peer.stop
  end
end
