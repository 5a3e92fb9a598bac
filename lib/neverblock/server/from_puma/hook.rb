# frozen_string_literal: true

module NeverBlock
  class Server
    module FromPuma
      # A block that Puma would call at some point of a process's life. As with Puma, a failure is printed and ignored.
      # @api private
      class Hook
        # @param name [String] for messages
        # @param block [Proc]
        # @param arguments [#call] converts our arguments into Puma's
        # @param data [Hash, nil] shared by hooks of one key within a process
        def initialize(name, block, arguments, data)
          @name = name
          @block = block
          @arguments = arguments
          @data = data
        end

        # @return [void]
        def call(*ours)
          @block.call(*@arguments.call(*ours), *[@data].compact)
        rescue => error
          message = error.full_message(highlight: false, order: :top)
          $stderr.write("neverblock: #{@name} failed, and is passed over: #{message}\n")
        end
      end
    end
  end
end
