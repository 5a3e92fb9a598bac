# frozen_string_literal: true

module NeverBlock
  class Postgres
    # Added to an exception that ends the wait for a write which has been sent, such as a timeout or a cancellation: its
    # message then says that the outcome is unknown.
    #
    #   OutcomeNote.add(error)
    #   error.message   # => "execution expired (the statement had been sent: whether it was executed is unknown)"
    # @api private
    module OutcomeNote
      WORDS = "(the statement had been sent: whether it was executed is unknown)"

      # @param error [Exception, nil]
      # @return [void]
      def self.add(error)
        case error
        when nil, OutcomeNote then nil
        when Scheduler::ScopeExit then error.note = WORDS # it becomes another exception outside of the timeout's block
        else error.extend(OutcomeNote) unless error.frozen?
        end
      end

      # @return [String]
      def to_s = "#{super} #{WORDS}"
    end
    private_constant :OutcomeNote
  end
end
