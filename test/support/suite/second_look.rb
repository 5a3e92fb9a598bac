# frozen_string_literal: true

module NeverBlockTest
  class Suite
    # Tests that failed are run again, each by itself, when all else has ended, and their failures say how often they passed
    # then: what always does was disturbed by others or by a busy machine, or meets a race that is rare. They stay failures.
    #
    #   SecondLook.new(run).call   # => the run, with what was found in its :failures
    class SecondLook
      # So often each is run.
      TIMES = 3

      # Where more have failed, of all runs together, one does not need to know.
      MOST = 4

      # @param run [Hash] an {Child#outcome}, with :again, tests' names by their failures, and :repeat
      def initialize(run)
        @run = run
      end

      # @return [Hash] the run
      def call
        again = @run[:again]
        return @run if again.empty? || again.size != @run[:failed]
        @run.merge(failures: again.map { |failure, file, test| "#{failure} (by itself it passes #{passes(file, test)} of #{TIMES} times)" })
      end

      private

      def passes(file, test)
        TIMES.times.count do |number|
          child = @run[:repeat].call(file, test, number)
          sleep 0.05 while child.runs?
          child.show
          outcome = child.outcome
          outcome[:failed].zero? && outcome[:passed] == 1
        end
      end
    end
  end
end
