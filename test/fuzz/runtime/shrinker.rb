# frozen_string_literal: true

module NeverBlockFuzz
  # Leaves operations out of a plan while it still fails in the same way.
  #
  #   plan, dropped = Shrinker.new(runner, outcome).call(plan)
  #
  # A failure may depend on chance: each smaller plan is run several times before it counts as successful.
  class Shrinker
    # @param runner [Runner]
    # @param outcome [Runner::Outcome] has the failures to reproduce
    # @param times [Integer] tries of each plan
    # @param tries [Integer] maximum of runs
    def initialize(runner, outcome, times: 3, tries: 400)
      @runner = runner
      @signatures = signatures(outcome)
      @times = times
      @tries = tries
    end

    # @param plan [Plan]
    # @return [Array(Plan, Array<Integer>)] the smallest plan found, and the numbers of the operations left out
    def call(plan)
      dropped = []
      loop do
        smaller = step(plan, dropped)
        return [plan.without(dropped), dropped] unless smaller
        dropped = smaller
      end
    end

    private

    # A crash has another position each time.
    def signatures(outcome)
      outcome.failures.map { |kind, message| (kind == :crash) ? "crash" : Runner.signature(kind, message)[0, 60] } - ["note"]
    end

    # Large parts first.
    def step(plan, dropped)
      current = plan.without(dropped)
      sizes = current.nodes.to_h { |node| [node.id, Plan.new(0, [node]).nodes.size] }
      candidates = current.nodes.drop(1).sort_by { |node| -sizes[node.id] }.map(&:id)
      found = candidates.find { |id| @tries > 0 && fails?(plan.without(dropped + [id])) }
      dropped + [found] if found
    end

    def fails?(plan)
      @tries -= 1
      failing = false
      @runner.each_outcome(([plan] * @times).each) do |outcome|
        failing ||= @signatures.intersect?(signatures(outcome))
        break if failing
      end
      failing
    end
  end
end
