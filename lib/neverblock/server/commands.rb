# frozen_string_literal: true

require_relative "log_text"

module NeverBlock
  class Server
    # Commands of the app, for the control socket alone: no client of the app reaches them. An app registers them where
    # it is loaded; each worker has them.
    #
    #   Commands.register("purge") { |url| "#{cache.purge(url)} removed" }
    #   Commands.call("purge", "https://example.org/")    # => [true, "1 removed"]
    # @api private
    module Commands
      @all = {}

      class << self
        # @param name [String]
        # @yieldparam argument [String]
        # @yieldreturn [#to_s] what the operator is told
        # @return [void]
        def register(name, &block)
          @all[name] = block
        end

        # @param name [String]
        # @param argument [String]
        # @return [Array(Boolean, String)] whether it has succeeded, and what to tell
        def call(name, argument)
          command = @all[name] or return [false, "this app has no command #{name}"]
          [true, LogText.utf8(command.call(argument).to_s)]
        rescue => error
          [false, LogText.utf8(error.message)]
        end
      end
    end
  end
end
