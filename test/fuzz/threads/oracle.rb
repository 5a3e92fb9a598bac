# frozen_string_literal: true

require_relative "../runtime/in_turn"
require_relative "../runtime/runner"
require_relative "known"
require_relative "text"
require_relative "trial"

module NeverBlockFuzz
  # Compares programs under fibers with the same under plain threads.
  #
  #   Oracle.new(engine: "epoll").each_outcome(plans) { |outcome| outcome.failures }
  #
  # Where they differ, both run again: what threads do in any of the runs is permitted, and what fibers do in less than
  # half of the runs is a note, not a failure.
  class Oracle
    include InTurn

    AGAIN = 3
    # A part of a trace: "after step 3: step 2", "at the end: r1".
    EVENT = /\Aafter step (?<now>\d+): (?:step (?<step>\d+)|.*)\z/
    private_constant :AGAIN, :EVENT

    # @param engine [String, nil]
    # @param limit [Numeric] seconds until a process that is never still counts as busy
    # @param plant [#call, nil] called under fibers first, to plant a defect
    def initialize(engine: nil, limit: 30, plant: nil)
      @engine = engine
      @limit = limit
      @plant = plant
    end

    # @param plan [Plan]
    # @return [Runner::Outcome]
    def outcome(plan)
      counts = plan.nodes.map(&:op).tally.except(:strand)
      Runner::Outcome.new(plan, failures(plan, Text.new(plan)), counts, "")
    end

    private

    def failures(plan, text)
      threads = [trial(text, "threads")]
      fibers = trial(text, text.host)
      return [] if new_differences(plan, text, threads, fibers).empty?
      AGAIN.times { threads << trial(text, "threads") }
      found = new_differences(plan, text, threads, fibers)
      return [] if found.empty?
      again = Array.new(AGAIN) { new_differences(plan, text, threads, trial(text, text.host)) }
      kind = (again.count(&:any?) > AGAIN / 2) ? :difference : :note
      found.map { |one| [kind, "#{name(plan, one)}: threads: #{one.threads.uniq.map { |value| value || "nothing" }.join(" or ")}; fibers: #{one.fibers || "nothing"}; #{one.event}: #{one.code}"] }
    end

    def trial(text, host)
      Trial.new(text.to_s, text.steps, host, engine: @engine, limit: @limit, plant: (@plant unless host == "threads")).call
    end

    # Those of the first step where there are any. What follows may follow from them.
    def new_differences(plan, text, threads, fibers)
      codes = plan.nodes.to_h { |node| [node.id, node.args[:code] || node.args[:open]] }
      events = [*threads, fibers].flat_map(&:keys).uniq
      differing = events.reject { |event| threads.any? { |trace| trace[event] == fibers[event] } }
      first = differing.map { |event| time(event) }.min
      found = differing.select { |event| time(event) == first }.map do |event|
        step = event[EVENT, :step] || event[EVENT, :now]
        Known::Difference.new(event, codes[step.to_i].to_s, threads.map { |trace| trace[event] }, fibers[event], text.to_s)
      end
      (found.none? { |one| Known.reason(one) }) ? found : []
    end

    def time(event) = event[EVENT, :now]&.to_i || Float::INFINITY

    def name(plan, difference)
      step = difference.event[EVENT, :step]
      plan.nodes.find { |node| node.id == step.to_i }&.op || difference.event[/[^:]+\z/].strip
    end
  end
end
