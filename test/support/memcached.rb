# frozen_string_literal: true

require_relative "socket_server"

module NeverBlockTest
  # A memcached for the tests, on a unix socket.
  #
  #   reason = MemcachedServer.missing and skip reason
  #   memcached = MemcachedServer.start
  #   Dalli::Client.new(memcached.path)
  #   memcached.stop
  class MemcachedServer < SocketServer
    # @return [String, nil] why memcached can't be used
    def self.missing = Peer.missing("memcached")

    # @param megabytes [Integer] memory for its entries
    # @return [MemcachedServer] a server that is ready
    def self.start(megabytes: 16) = new(megabytes)

    # @api private
    def initialize(megabytes)
      super(user: "nobody") { |folder| [Peer.find("memcached"), "-s", "#{folder}/socket", "-a", "0777", "-m", megabytes.to_s] }
    end

    # @return [Integer] of its process
    def pid
      @pid ||= UNIXSocket.open(path) do |socket|
        socket.write("stats\r\n")
        socket.each_line("END\r\n").first[/^STAT pid (\d+)/, 1].to_i
      end
    end
  end
end
