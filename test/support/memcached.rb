# frozen_string_literal: true

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

    # @return [MemcachedServer] a server that is ready
    def self.start = new

    # @api private
    def initialize
      @peer = Peer.start(user: "nobody") { |folder| [Peer.find("memcached"), "-s", "#{folder}/socket", "-a", "0777", "-m", "16"] }
      @peer.until_ready { Peer.accepts?(path) }
    end

    # @return [String] of its socket
    def path = File.join(@peer.folder, "socket")

    # @return [void]
    def stop = @peer.stop
  end
end
