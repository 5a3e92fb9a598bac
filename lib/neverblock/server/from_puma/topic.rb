# frozen_string_literal: true

require_relative "row"

module NeverBlock
  class Server
    module FromPuma
      # Lets a module define directives of Puma: each with a description and a translation.
      #
      #   module Processes
      #     extend Topic
      #     word(:tag, "The same.", here: :tag) { |name| set(:tag, name.to_s) }
      #   end
      #
      # The block runs in the {Translation} with the directive's arguments. It returns the note for the operator; nil:
      # the row's own text; false: no note. Without a block the directive does nothing.
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
