# frozen_string_literal: true

require "json"
require "socket"
require_relative "../log_text"

module NeverBlock
  class Server
    module Cluster
      # Messages between two processes, and descriptors beside them. A message is a Hash; its end is the other's end.
      #
      #   ours, theirs = Channel.pair
      #   ours.send({do: "fork"}, theirs.io)
      #   theirs.receive            # => [{do: "fork"}, [#<IO>]]
      #   theirs.receive            # => nil when the other has gone
      # @api private
      class Channel
        # A message is its length in four bytes, how many descriptors come with it in one, and JSON.
        HEAD = "NC"
        HEAD_SIZE = 5
        # Bytes: what is longer is none of ours.
        LONGEST = 1 << 20

        # @return [Array(Channel, Channel)]
        def self.pair = UNIXSocket.pair.map { |socket| new(socket) }

        # @param number [Integer] of a descriptor that this process was started with
        # @return [Channel]
        def self.inherited(number) = new(UNIXSocket.for_fd(number).tap { |socket| socket.close_on_exec = true })

        # @return [UNIXSocket]
        attr_reader :io

        # @param io [UNIXSocket]
        def initialize(io)
          @io = io
          @writing = Thread::Mutex.new
        end

        # @param message [Hash{Symbol=>Object}]
        # @param ios [Array<IO>] given along
        # @return [Boolean] false if the other has gone
        def send(message, *ios)
          text = JSON.generate(message.transform_values { |value| (String === value) ? LogText.utf8(value) : value })
          @writing.synchronize do
            @io.write([text.bytesize, ios.size].pack(HEAD), text)
            ios.each { |io| @io.send_io(io) }
          end
          true
        rescue SystemCallError, IOError
          false
        end

        # Waits for the next one.
        # @return [Array(Hash{Symbol=>Object}, Array<IO>), nil] nil at the end
        def receive
          head = read(HEAD_SIZE) or return
          length, count = head.unpack(HEAD)
          return if length > LONGEST
          text = read(length) or return
          [JSON.parse(text, symbolize_names: true), Array.new(count) { @io.recv_io }]
        rescue SystemCallError, IOError, SocketError, JSON::ParserError
          nil
        end

        # @return [void]
        def close = @io.close

        private

        # Not more than asked for, since a descriptor may follow.
        def read(length)
          text = +""
          while text.bytesize < length
            piece = @io.recv(length - text.bytesize)
            return if piece.nil? || piece.empty?
            text << piece
          end
          text
        end
      end
    end
  end
end
