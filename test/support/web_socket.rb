# frozen_string_literal: true

require "json"
require "securerandom"
require "socket"
require "timeout"
require_relative "limit"

module NeverBlockTest
  # A minimal client for Action Cable: text messages over a websocket (RFC 6455).
  #
  #   socket = WebSocket.new(3000, "/cable")
  #   socket.send(command: "subscribe", identifier: {channel: "ChatChannel"}.to_json)
  #   socket.until { |message| message["type"] == "confirm_subscription" }
  class WebSocket
    def initialize(port, path, origin: "http://localhost:#{port}")
      @socket = TCPSocket.new("127.0.0.1", port)
      @socket << "GET #{path} HTTP/1.1\r\nHost: localhost:#{port}\r\nOrigin: #{origin}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" \
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: #{SecureRandom.base64(16)}\r\nSec-WebSocket-Protocol: actioncable-v1-json\r\n\r\n"
      head = Timeout.timeout(LIMIT) { @socket.gets("\r\n\r\n") }.to_s
      raise "no websocket: #{head}" unless head.start_with?("HTTP/1.1 101")
    end

    # @return [void]
    def send(message)
      text = message.to_json.b
      mask = SecureRandom.bytes(4)
      size = (text.bytesize < 126) ? [0x81, 0x80 | text.bytesize].pack("CC") : [0x81, 0x80 | 126, text.bytesize].pack("CCn")
      @socket << size << mask << text.bytes.each_with_index.map { |byte, index| byte ^ mask.getbyte(index % 4) }.pack("C*")
    end

    # @return [Hash] the next message that satisfies the block
    def until
      Timeout.timeout(LIMIT) { loop { receive.then { |message| return message if yield(message) } } }
    end

    def close = @socket.close

    private

    # Frames of servers are not masked.
    def receive
      _, size = @socket.read(2).unpack("CC")
      size = @socket.read(2).unpack1("n") if size == 126
      JSON.parse(@socket.read(size))
    end
  end
end
