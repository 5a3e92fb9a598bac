# frozen_string_literal: true

require_relative "socket_server"

module NeverBlockTest
  # A Redis for the tests, on a unix socket.
  #
  #   reason = RedisServer.missing and skip reason
  #   redis = RedisServer.start
  #   RedisClient.config(path: redis.path)
  #   redis.stop
  class RedisServer < SocketServer
    # @return [String, nil] why Redis can't be used
    def self.missing = Peer.missing("redis-server")

    # @return [RedisServer] a server that is ready
    def self.start = new

    # @api private
    def initialize
      super { |folder| [Peer.find("redis-server"), "--port", "0", "--unixsocket", "#{folder}/socket", "--save", "", "--dir", folder] }
    end

    # @return [Integer] of its process
    def pid
      @pid ||= UNIXSocket.open(path) do |socket|
        socket.write("INFO server\r\n")
        size = socket.gets[1..].to_i
        socket.read(size)[/^process_id:(\d+)/, 1].to_i
      end
    end
  end
end
