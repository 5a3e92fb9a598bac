# frozen_string_literal: true

module NeverBlock
  class ConnectionPool
    # One of a pool's places: a connection, or room for one, with what the pool knows of it.
    #
    # It has no `initialize`: {Places} makes one where no Ruby method may be called.
    # @api private
    class Place
      # @return [Object] the user's connection
      attr_accessor :connection
      # @return [Float, nil] when it was opened, on the monotonic clock; nil: there is none
      attr_accessor :opened_at
      # @return [Boolean] whether the connection can tell that it is closed
      attr_accessor :tells_closed
      # @return [Integer] of the pool when it was opened
      attr_accessor :generation
      # @return [Float] since when it is idle
      attr_accessor :idle_since
      # @return [Fiber, nil] the holder
      attr_accessor :fiber
      # @return [Thread] of that fiber
      attr_accessor :thread
      # @return [Float] since when it is held
      attr_accessor :since
      # @return [Integer] check-outs of the holder
      attr_accessor :depth
      # @return [Integer, nil] how the user's block was unwound: {Unwinding}
      attr_accessor :unwound
      # @return [Boolean, nil] whether the connection may be in the middle of a response
      attr_accessor :spoilt
      # @return [#call, nil] closes the connection in the pool's stead
      attr_accessor :closer
    end
  end
end
