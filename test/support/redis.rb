# frozen_string_literal: true

require_relative "peer"

module NeverBlockTest
  # A Redis for the tests, on a unix socket.
  #
  #   reason = RedisServer.missing and skip reason
  #   redis = RedisServer.start
  #   RedisClient.config(path: redis.path)
  #   redis.stop
  class RedisServer
    # @return [String, nil] why Redis can't be used
    def self.missing = Peer.missing("redis-server")

    # @return [RedisServer] a server that is ready
    def self.start = new

    # @api private
    def initialize
      @peer = Peer.start { |folder| [Peer.find("redis-server"), "--port", "0", "--unixsocket", "#{folder}/socket", "--save", "", "--dir", folder] }
      @peer.until_ready { Peer.accepts?(path) }
    end

    # @return [String] of its socket
    def path = File.join(@peer.folder, "socket")

    # @return [void]
    def stop = @peer.stop
  end
end
