# frozen_string_literal: true

require "socket"
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

    # @param name [Symbol] of a signal: :KILL, :STOP, :CONT
    # @return [void]
    def signal(name) = Process.kill(name, pid)

    # @return [Integer] of its process
    def pid
      @pid ||= UNIXSocket.open(path) do |socket|
        socket.write("INFO server\r\n")
        size = socket.gets[1..].to_i
        socket.read(size)[/^process_id:(\d+)/, 1].to_i
      end
    end

    # @return [void]
    def stop = @peer.stop
  end
end
