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
          "The same: that file is read after this one. Its path is relative to the folder of the start.") do |_file|
          false
        end
        word :inject, "The same: the block is run at once, with all words."
        word :get, "Returns the first value of another word so far."
      end
    end
  end
end
