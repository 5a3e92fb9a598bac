# frozen_string_literal: true

module NeverBlock
  class MySQL
    # The connection was lost, or its response came too late, while a statement that may have written was in flight: it
    # is unknown whether it was executed. It is never sent again.
    #
    #   begin
    #     database.transaction { |connection| connection.query("update accounts set credit = 0") }
    #   rescue NeverBlock::MySQL::OutcomeUnknown
    #     # look into the database
    #   end
    #
    # Active Record makes an ActiveRecord::ConnectionFailed of it, since it is a Trilogy::EOFError.
    class OutcomeUnknown < Trilogy::EOFError
      include Error

      # @api private
      # @param cause [Exception] what ended the connection
      # @return [OutcomeUnknown]
      def self.of(cause) = new("#{cause.message} (the statement had been sent: whether it was executed is unknown)")
    end

    # The real connection with a transaction or session state of this virtual connection was lost. The statement was not
    # sent.
    class SessionLost < Trilogy::EOFError
      include Error
    end

    # No connection was free in time. The message names what the connections are used for.
    class PoolTimeout < StandardError
      include Error
    end

    # `max_waiting` statements wait for a connection already.
    class BacklogFull < PoolTimeout
    end
  end
end
