# frozen_string_literal: true

require_relative "generator"
require_relative "oracle"

module NeverBlockFuzz
  # Planted defects: each breaks something on our side only, and the oracle must find it in a small program.
  #
  #   SqlPlants.missed      # => [] if all are found
  module SqlPlants
    # A defect: its definition, a program that runs into it as words of fibers, and where they differ.
    Plant = Struct.new(:name, :program, :finds, :defect) do
      # @return [Plan]
      def plan
        id = 0
        setup = Plan::Node.new(0, :setup, {api: :plain, connections: 2, multiplex: :reads, prepared: true}, [])
        fibers = program.each_with_index.map do |words, number|
          Plan::Node.new(id += 1, :fiber, {number:}, words.map { |op, choice| Plan::Node.new(id += 1, op, {pause: 0.2, choice: choice || 0}, []) })
        end
        Plan.new(0, [setup, *fibers])
      end
    end

    # Replaces methods of a class, or a module's own; `super` is the original one.
    def self.change(target, &block) = target.prepend(Module.new(&block)) && nil

    ALL = [
      [:a_doubted_statement_runs_twice, [[:hold, :hold, :hold], [:audit, :audit, :audit], [:count, :count, :hold]], "in the end audit",
        -> { change(NeverBlock::Postgres::Statement) { def harmless? = true } }],
      [:a_definition_of_two_phases_is_missed, [[[:two_phase_definition, 0]] * 2, [:pause, :look, :look].map { |word| (word == :pause) ? :hold : word } + [:look] * 8], "look",
        -> { change(NeverBlock::Postgres::Alteration.singleton_class) { def by?(_, tag) = tag != "COMMIT PREPARED" && super } }]
    ].map { |fields| Plant.new(*fields) }.freeze

    # @return [Array<String>] defects that were missed, with what was found instead
    def self.missed
      ALL.filter_map do |plant|
        found = SqlOracle.new(plant: plant.defect).outcome(plant.plan).failures
        "#{plant.name}: expected #{plant.finds}, found #{found.inspect}" unless found.any? { |_, message| message.include?(plant.finds) }
      end
    end

    # @return [Array<String>] defects whose program differs without the defect
    def self.unsound
      ALL.filter_map do |plant|
        found = SqlOracle.new.outcome(plant.plan).failures
        "#{plant.name}: without the defect, #{found.inspect}" if found.any?
      end
    end
  end
end
