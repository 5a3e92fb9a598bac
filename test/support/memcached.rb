# frozen_string_literal: true

require "socket"
require_relative "peer"

module NeverBlockTest
  # A memcached for the tests, on a unix socket.
  #
  #   reason = MemcachedServer.missing and skip reason
  #   memcached = MemcachedServer.start
  #   Dalli::Client.new(memcached.path)
  #   memcached.stop
  class MemcachedServer
    # @return [String, nil] why memcached can't be used
    def self.missing = Peer.missing("memcached")

    # @param megabytes [Integer] memory for its entries
    # @return [MemcachedServer] a server that is ready
    def self.start(megabytes: 16) = new(megabytes)

    # @api private
    def initialize(megabytes)
      @peer = Peer.start(user: "nobody") { |folder| [Peer.find("memcached"), "-s", "#{folder}/socket", "-a", "0777", "-m", megabytes.to_s] }
      @peer.until_ready { Peer.accepts?(path) }
    end

    # @return [String] of its socket
    def path = File.join(@peer.folder, "socket")

    # @param name [Symbol] of a signal: :KILL, :STOP, :CONT
    # @return [void]
    def signal(name) = Process.kill(name, pid)

    # @return [Integer] of its process
    def pid
      @pid ||= UNIXSocket.open(path) do |socket|
        socket.write("stats\r\n")
        socket.each_line("END\r\n").first[/^STAT pid (\d+)/, 1].to_i
      end
    end

    # @return [void]
    def stop = @peer.stop
  end
end
