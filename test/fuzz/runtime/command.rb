# frozen_string_literal: true

require_relative "plants"
require_relative "runner"
require_relative "shrinker"

module NeverBlockFuzz
  # Runs random seeds for some seconds, or one seed again, and prints each failure with the command that reruns it.
  #
  #   Command.new(ENV).call      # => true if no seed failed
  #
  # A subclass has another generator, runner, plants, task and text of a program.
  class Command
    # @param environment [#[]] the variables that run.rb names
    # @param output [IO]
    def initialize(environment, output: $stdout)
      @environment = environment
      @output = output
      @seed = integer("SEED")
      @drop = environment["DROP"].to_s.split(",").map(&:to_i)
      @without = environment["WITHOUT"].to_s.split(",").map(&:to_sym)
      @runner = runner(engine: environment["ENGINE"], limit: integer("LIMIT") || 30)
      check_names
    end

    # @return [Boolean] whether no seed failed
    def call
      return show if @environment["PLAN"]
      return plants if @environment["PLANTS"]
      failed = Hash.new { |hash, key| hash[key] = [] }
      runs = 0
      counts = Hash.new(0)
      @runner.each_outcome(plans, ends_at) do |outcome|
        runs += 1
        outcome.counts.each { |name, count| counts[name] += count }
        next unless outcome.failed?
        tell(outcome)
        outcome.failures.each { |kind, message| failed[Runner.signature(kind, message)] |= [outcome.seed] unless kind == :note }
      end
      summary(runs, counts, failed)
    end

    private

    def generator = Generator

    def runner(**) = Runner.new(lanes: integer("LANES") || Etc.nprocessors, **)

    def defects = Plants

    def task = "fuzz:runtime"

    # @return [String] the text of a program
    def text(plan) = plan.to_s

    def shrink? = @environment["SHRINK"]

    def integer(name)
      value = @environment[name].to_s
      Integer(value, 10) unless value.empty?
    end

    def check_names
      unknown = @without - generator.operations
      raise ArgumentError, "WITHOUT: there is no operation #{unknown.join(", ")}; choose from #{generator.operations.sort.join(", ")}" if unknown.any?
    end

    def show
      @output.puts text(plan(@seed || 1))
      true
    end

    def plants
      faults = defects.missed + defects.unsound
      @output.puts faults, "#{defects::ALL.size} planted defects, #{faults.size} faults of the checks"
      faults.empty?
    end

    def plan(seed)
      plan = generator.new(seed).plan
      left_out = plan.nodes.select { |node| @without.include?(node.op) }.map(&:id)
      plan.without(left_out | @drop)
    end

    # @return [Enumerator] of plans: the requested one, or as many as there is time for
    def plans
      return Array.new(integer("TIMES") || 1) { plan(@seed) }.each if @seed
      first = integer("FROM") || Random.new_seed % 1_000_000_000
      @output.puts "seeds from #{first}"
      @output.flush
      seeds = (first..).then { |all| integer("PROGRAMS")&.then { |count| all.first(count) } || all }
      Enumerator.new { |yielder| seeds.each { |seed| yielder << plan(seed) } }
    end

    def ends_at
      (@seed || integer("PROGRAMS")) ? Float::INFINITY : Process.clock_gettime(Process::CLOCK_MONOTONIC) + (integer("SECONDS") || 60)
    end

    def tell(outcome)
      @output.puts "seed #{outcome.seed} failed; again: #{replay(outcome.plan)}"
      outcome.failures.first(6).each { |kind, message| @output.puts "  #{kind}: #{message.gsub(/\s+/, " ")[0, 600]}" }
      shrink(outcome) if shrink? && new?(outcome)
      @output.flush
    end

    def replay(plan, drop = @drop)
      facts = {"ENGINE" => @environment["ENGINE"], "WITHOUT" => @environment["WITHOUT"], "DROP" => drop.join(",")}
      ["SEED=#{plan.seed}", *facts.filter_map { |name, value| "#{name}=#{value}" unless value.to_s.empty? }, "rake #{task}"].join(" ")
    end

    # @return [Boolean] whether no failure was like this one
    def new?(outcome) = outcome.failures.map { |kind, message| Runner.signature(kind, message) }.none? { |name| !(@told ||= Set.new).add?(name) }

    def shrink(outcome)
      smaller, dropped = Shrinker.new(@runner, outcome, times: integer("TIMES") || 3, tries: integer("TRIES") || 200).call(outcome.plan)
      @output.puts "shrunk: #{replay(outcome.plan, @drop | dropped)}", text(smaller).gsub(/^/, "    ")
    end

    def summary(runs, counts, failed)
      operations = counts.values.sum
      @output.puts "operations never used: #{(generator.operations.map(&:to_s) - counts.keys).join(", ")}" if !@seed && operations > 20_000 && (generator.operations.map(&:to_s) - counts.keys).any?
      failed.sort_by { |_, seeds| -seeds.size }.each { |name, seeds| @output.puts "#{seeds.size} seeds (#{seeds.first(5).join(", ")}): #{name}" }
      @output.puts "#{runs} runs, #{operations} operations, #{failed.values.flatten.uniq.size} seeds failed"
      failed.empty? && runs.positive?
    end
  end
end
