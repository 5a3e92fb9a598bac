# frozen_string_literal: true

module NeverBlock
  class MySQL
    # The LAST_INSERT_ID() of a session whose parked connection another takes: that one asks for it first.
    #
    #   saved = SavedInsertId.new(0, [7])
    #   saved.save(connection)      # by the other
    #   saved.value                 # => 7, for the session, on its next connection
    # @api private
    class SavedInsertId
      # Seconds to wait for a value that is being asked for.
      LIMIT = 5
      private_constant :LIMIT

      # @param before [Integer, SavedInsertId, nil] the value if none of the numbers is it
      # @param ids [Array<Integer>] numbers that the server has told the session on this connection
      # @param owned [Boolean] whether the connection's value is the session's in any case
      def initialize(before, ids, owned: false)
        @before = before
        @ids = ids
        @owned = owned
        @id = nil
        @done = Thread::Queue.new
      end

      # @param connection [Connection]
      # @return [void]
      # @raise [Trilogy::Error]
      def save(connection)
        @id = connection.insert_id
      ensure
        @done.close
      end

      # It was not asked for, and the connection is closed.
      # @return [void]
      def lose = @done.close

      # @return [Integer, nil] nil: it was lost with the connection
      def value
        @done.pop(timeout: LIMIT)
        return if @id.nil?
        return @id if @owned || @ids.include?(@id)
        (SavedInsertId === @before) ? @before.value : @before
      end
    end
  end
end
