# frozen_string_literal: true

module NeverBlock
  class Server
    module FromPuma
      # A word of Puma's configuration, and what becomes of it. docs/from-puma.md has all of them.
      #
      # @!attribute [r] name
      #   @return [Symbol]
      # @!attribute [r] also
      #   @return [Array<Symbol>] its other names
      # @!attribute [r] here
      #   @return [Array<Symbol>] the directives that it becomes
      # @!attribute [r] says
      #   @return [String] what is to be known of it, or why it has no counterpart
      # @api private
      Row = Data.define(:name, :also, :here, :says) do
        # @return [Array<Symbol>]
        def names = [name, *also]

        # @return [String] for a log, which has no use for backticks
        def plain = says.delete("`")
      end
    end
  end
end
