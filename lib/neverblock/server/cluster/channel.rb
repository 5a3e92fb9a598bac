# frozen_string_literal: true

require "json"
require "socket"
require_relative "../log_text"

module NeverBlock
  class Server
    module Cluster
      # Messages between two processes, with descriptors attached. A message is a Hash. A channel ends when the process
      # at its other end has ended.
      #
      #   ours, theirs = Channel.pair
      #   ours.send({do: "fork"}, theirs.io)
      #   theirs.receive            # => [{do: "fork"}, [#<IO>]]
      #   theirs.receive            # => nil when the other process has ended
      # @api private
      class Channel
        # A message is the length of its JSON in four bytes, the number of descriptors in one, and the JSON.
        HEAD = "NC"
        HEAD_SIZE = 5
        # Bytes: a longer message can't be one of ours. An app's own figures may be large.
        LONGEST = 64 << 20
        # Characters of a text, such as an app's exception; the rest is left out.
        LONGEST_TEXT = 1 << 20

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
        # @param ios [Array<IO>] whose descriptors are sent with it
        # @return [Boolean] false if the other process has ended
        def send(message, *ios)
          text = JSON.generate(message.transform_values { |value| (String === value) ? readable(value) : value })
          @writing.synchronize do
            @io.write([text.bytesize, ios.size].pack(HEAD), text)
            ios.each { |io| @io.send_io(io) }
          end
          true
        rescue SystemCallError, IOError
          false
        end

        # Waits for the next message.
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

        def readable(text) = LogText.utf8(text)[0, LONGEST_TEXT]

        # Reads exactly this many bytes, since a descriptor may follow.
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
