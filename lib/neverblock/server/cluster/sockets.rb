# frozen_string_literal: true

require "socket"

module NeverBlock
  class Server
    module Cluster
      # Listening sockets that were inherited from the supervisor. They take the place of a {Binder}, but closing them
      # never removes the files of unix sockets.
      #
      #   Sockets.new({7 => "tcp://127.0.0.1:3000"}).sockets   # => [#<Socket:fd 7>]
      # @api private
      class Sockets
        # @return [Array<Socket>]
        attr_reader :sockets

        # @return [Array<String>] their URIs
        attr_reader :addresses

        # @param numbers [Hash{Integer=>String}] descriptors and their URIs
        def initialize(numbers)
          @sockets = numbers.keys.map { |number| Socket.for_fd(number).tap { |socket| socket.close_on_exec = true } }
          @addresses = numbers.values
        end

        # @return [self]
        def open = self

        # @return [void]
        def close
          @sockets.each(&:close)
          @sockets.clear
        end
      end
    end
  end
end
