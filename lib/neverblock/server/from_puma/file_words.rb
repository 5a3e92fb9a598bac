# frozen_string_literal: true

require_relative "topic"

module NeverBlock
  class Server
    module FromPuma
      # Puma's directives for the file itself.
      # @api private
      module FileWords
        extend Topic

        TITLE = "The file itself"

        word(:load,
          "The same: that file is read after this one. A path begins where the server was started.") do |_file|
          false
        end
        word :inject, "The same: the block is run at once, with all words."
        word :get, "Gives what the file has said of another word so far, its first value."
      end
    end
  end
end
