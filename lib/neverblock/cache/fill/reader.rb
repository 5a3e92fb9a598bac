# frozen_string_literal: true

module NeverBlock
  class Cache
    class Fill
      # A request that has joined a {Fill}.
      #
      #   reader = Reader.new(true)
      #   reader.index += 1      # it has read a chunk
      # @api private
      class Reader
        # @return [Integer, nil] of the next chunk; nil: it has left
        attr_accessor :index

        # @param leads [Boolean] whether the fetch was begun for it
        # @param index [Integer, nil] nil: it has come too late
        def initialize(leads, index = 0)
          @leads = leads
          @index = index
          @late = index.nil?
        end

        # @return [Boolean]
        def leads? = @leads

        # @return [Boolean]
        def late? = @late
      end
    end
  end
end
