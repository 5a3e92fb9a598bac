# frozen_string_literal: true

module NeverBlockFuzz
  # Leaves operations out of a plan while it still fails in the same way.
  #
  #   plan, dropped = Shrinker.new(runner, [:sleep_short]).call(plan)
  #
  # A failure may need luck: each smaller plan is tried some times before it counts as one that succeeds.
  class Shrinker
    # @param runner [Runner]
    # @param kinds [Array<Symbol>] the kinds of failures that count
    # @param times [Integer] tries of each plan
    # @param tries [Integer] runs at most
    def initialize(runner, kinds, times: 3, tries: 400)
      @runner = runner
      @kinds = kinds
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

    # Large parts first.
    def step(plan, dropped)
      current = plan.without(dropped)
      sizes = current.nodes.to_h { |node| [node.id, Plan.new(0, [node]).nodes.size] }
      candidates = current.nodes.drop(1).sort_by { |node| -sizes[node.id] }.map(&:id)
      candidates.each do |id|
        return if @tries <= 0
        return dropped + [id] if fails?(plan.without(dropped + [id]))
      end
      nil
    end

    def fails?(plan)
      @tries -= 1
      failing = false
      @runner.each_outcome(([plan] * @times).each) do |outcome|
        failing ||= outcome.failures.any? { |kind, _| @kinds.include?(kind) }
        break if failing
      end
      failing
    end
  end
end
