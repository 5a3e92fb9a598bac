# frozen_string_literal: true

module NeverBlock
  class Server
    module FromPuma
      # A directive of Puma, and its translation. docs/from-puma.md lists all of them.
      #
      # @!attribute [r] name
      #   @return [Symbol]
      # @!attribute [r] also
      #   @return [Array<Symbol>] its other names
      # @!attribute [r] here
      #   @return [Array<Symbol>] our directives that it becomes
      # @!attribute [r] says
      #   @return [String] how it differs, or why it has no counterpart
      # @api private
      Row = Data.define(:name, :also, :here, :says) do
        # @return [Array<Symbol>]
        def names = [name, *also]

        # @return [String] the text without backticks, for a log
        def plain = says.delete("`")
      end
    end
  end
end
