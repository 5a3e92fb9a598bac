# frozen_string_literal: true

module NeverBlockTest
  class Suite
    # Tests that failed are run again, each by itself, when all else has ended: what passes every time was disturbed by a busy
    # machine, or meets a race that is rare. It does not fail the whole, and is listed as unsteady, which is a bug to be found
    # all the same. Where many fail, or a run broke, nothing is forgiven.
    #
    #   SecondLook.new(run).call   # => the run, with its :unsteady and without what was that
    class SecondLook
      # So often it has to pass.
      TIMES = 3

      # So many of a run's tests are looked at.
      MOST = 2

      # @param run [Hash] an {Child#outcome}, with :again, tests' names by their failures, and :repeat
      def initialize(run)
        @run = run
      end

      # @return [Hash] the run
      def call
        again = @run[:again]
        return @run if again.empty? || again.size > MOST || again.size != @run[:failed]
        steady, unsteady = again.partition { |_, file, test| !passes?(file, test) }
        @run.merge(failed: steady.size, passed: @run[:passed] + unsteady.size,
          failures: steady.map(&:first), unsteady: unsteady.map(&:first))
      end

      private

      def passes?(file, test)
        TIMES.times.all? do |number|
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
