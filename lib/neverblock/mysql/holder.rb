# frozen_string_literal: true

module NeverBlock
  class MySQL
    # Has a real connection for a moment, where there is no virtual one.
    #
    #   holder = Holder.new
    #   pool.acquire_at_once("KILL", holder)
    #   holder.held   # => Connection, until it is released
    # @!attribute held
    #   @return [Connection, :room, nil] what {Pool} has given; :room for one that may be opened
    # @api private
    Holder = Struct.new(:held)
  end
end
