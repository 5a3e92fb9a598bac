# frozen_string_literal: true

module NeverBlock
  # Runs all, returns the value of the first that succeeds, and cancels the others.
  #
  #   NeverBlock.race(-> { ask(:primary) }, -> { ask(:replica) })
  #
  # What a loser has taken before it is cancelled is lost with it: an item of a queue, say, that came in the same turn as
  # the winner's. To wait for several queues, use {NeverBlock.select}, which takes from the winner alone.
  #
  # A failure counts only if all fail: then the first one is raised, with the others in `#errors`. Outside a loop it
  # runs one.
  #
  # @param contestants [Array<#call>]
  # @return [Object] the winner's value
  # @raise [Exception] the first failure, extended with {Failure}, if none succeeds
  def self.race(*contestants)
    raise ArgumentError, "NeverBlock.race needs at least one callable" if contestants.empty?
    contestants.each { |one| raise ArgumentError, "race: #{one.inspect} can't be called" unless one.respond_to?(:call) }
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
          results << outcome # nil: it failed, or was cancelled
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
