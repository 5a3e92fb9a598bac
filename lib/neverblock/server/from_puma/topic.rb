# frozen_string_literal: true

require_relative "row"

module NeverBlock
  class Server
    module FromPuma
      # Lets a module have words of Puma's: each with what is to be known of it, and how it is translated.
      #
      #   module Processes
      #     extend Topic
      #     word(:tag, "The same.", here: :tag) { |name| set(:tag, name.to_s) }
      #   end
      #
      # The block runs in the {Translation}, with what the file gives the word. It returns what to say of it; nil: the row's
      # own text; false: nothing. Without a block the word does nothing.
      # @api private
      module Topic
        # @return [Array<Row>]
        def rows = @rows ||= []

        private

        def word(name, says, also: [], here: [], &translate)
          rows << Row.new(name:, also: Array(also), here: Array(here), says: says.split.join(" "))
          define_method(:"say_#{name}", &translate) if translate
        end
      end
    end
  end
end
