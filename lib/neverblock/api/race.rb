# frozen_string_literal: true

module NeverBlock
  # Calls all contestants concurrently. Returns the value of the first that succeeds, and cancels the others.
  #
  #   NeverBlock.race(-> { ask(:primary) }, -> { ask(:replica) })
  #
  # A loser's effects before its cancellation remain. For example, an item that a loser has popped from a queue is lost.
  # To wait for several queues use {NeverBlock.select}, which takes an item from the winner only.
  #
  # A failure counts only if all contestants fail. Then the first failure is raised, with the others in `#errors`.
  # Outside a loop, the function starts one.
  #
  # @param contestants [Array<#call>]
  # @return [Object] the winner's value
  # @raise [Exception] the first failure, extended with {Failure}, if none succeeds
  def self.race(*contestants)
    raise ArgumentError, "NeverBlock.race needs at least one callable" if contestants.empty?
    contestants.each do |one|
      raise ArgumentError, "race: a contestant must respond to call, got #{one.inspect}" unless one.respond_to?(:call)
    end
    winner = nil
    failures = []
    run(exit: :cancel) do |scope|
      results = Thread::Queue.new
      contestants.each do |one|
        contest = proc do
          outcome = [one.call]
        rescue => error
          failures << error
        ensure
          results << outcome # nil after a failure or a cancellation
        end
        scope.start(contest, [], nil, origin: (one if Proc === one))
      end
      contestants.size.times { break if (winner = results.pop) }
    end
    return winner.first if winner
    first, *others = failures
    raise Cancelled, "race: every contestant was cancelled" unless first
    raise Failure.attach(first, others), cause: first.cause
  end
end
