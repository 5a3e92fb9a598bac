# frozen_string_literal: true

require "active_record"
require "neverblock/active_record"
require_relative "../runtime/in_turn"
require_relative "../runtime/runner"
require_relative "known"
require_relative "trial"

module NeverBlockFuzz
  # Compares programs on our adapter, with few connections, with the same on the stock one, with a connection for each
  # fiber.
  #
  #   SqlOracle.new.each_outcome(plans) { |outcome| outcome.failures }
  #
  # A difference that is found runs again: it is a failure if the stock results stay as they were.
  class SqlOracle
    include InTurn

    # @param engine [String, nil]
    # @param limit [Numeric] seconds until a program counts as hanging
    # @param plant [#call, nil] called on our side first, to plant a defect
    def initialize(engine: nil, limit: 60, plant: nil)
      ENV["NEVERBLOCK_ENGINE"] = engine if engine
      @limit = limit
      @plant = plant
    end

    # @param plan [Plan]
    # @return [Runner::Outcome]
    def outcome(plan)
      Runner::Outcome.new(plan, failures(plan), plan.nodes.map { |node| node.op.to_s }.tally.except("setup", "fiber"), "")
    end

    private

    def failures(plan)
      trials = [trial(plan, :stock), trial(plan, :ours)]
      stock, ours = trials.map(&:results)
      return [[:undefined, "on the stock adapter it #{stock["end"].join(": ")}"]] if stock["end"]
      found = differences(plan, stock, ours)
      return found if found.empty? || trial(plan, :stock).results == stock
      [[:undefined, "the stock adapter's results differ between two runs: a word is wrong"]]
    end

    def trial(plan, side) = SqlTrial.new(plan, side, limit: @limit, plant: @plant).start

    def differences(plan, stock, ours)
      words = plan.nodes.to_h { |node| [node.id.to_s, node.op] }
      (stock.keys | ours.keys).filter_map do |key|
        next if stock[key] == ours[key] || SqlKnown.reason(words[key], stock[key], ours[key])
        [:difference, "#{words[key] || "in the end"} #{key}: stock: #{stock[key].inspect[0, 250]}; ours: #{ours[key].inspect[0, 250]}"]
      end
    end
  end
end
