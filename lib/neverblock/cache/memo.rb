# frozen_string_literal: true

module NeverBlock
  class Cache
    # Values of a function of a text, for texts that come again and again. The function depends on nothing else.
    #
    #   memo = Memo.new
    #   memo.fetch("gzip, br") { fold("gzip, br") }
    #
    # Memory is bounded: a long text is not kept, and a full memo is emptied. Threads may use it.
    # @api private
    class Memo
      # @param most [Integer] texts
      # @param longest [Integer] bytes of a text
      def initialize(most: 256, longest: 512)
        @most = most
        @longest = longest
        @values = {}
      end

      # @param text [String]
      # @yieldreturn [Object] frozen
      # @return [Object] the block's value, of this call or an earlier one
      def fetch(text)
        @values.fetch(text) do
          value = yield
          next value if text.bytesize > @longest
          @values = {} if @values.size >= @most
          @values[text.dup.freeze] = value
        end
      end
    end
  end
end
