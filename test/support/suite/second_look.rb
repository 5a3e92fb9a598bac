# frozen_string_literal: true

module NeverBlockTest
  class Suite
    # Reruns failed tests, each by itself, after all others have ended. Their failures then say how often they passed: a
    # test that always passes was disturbed by others or by a busy machine, or has a rare race. It stays a failure.
    #
    #   SecondLook.new(run).call   # => the run, with the results added to its :failures
    class SecondLook
      # Reruns of each test.
      TIMES = 3

      # With more failures than this in all runs together, nothing is rerun.
      MOST = 4

      # @param run [Hash] a {Child#outcome}
      def initialize(run)
        @run = run
      end

      # @return [Hash] the run
      def call = @run.merge(failures: @run[:failures].map { |failure| failure.test? ? failure.rerun(passes(failure), TIMES) : failure })

      private

      def passes(failure)
        TIMES.times.count do |number|
          child = @run[:repeat].call(failure.file, failure.test, number)
          sleep 0.05 while child.runs? # real: the test program
          child.show
          outcome = child.outcome
          outcome[:failed].zero? && outcome[:passed] == 1
        end
      end
    end
  end
end
