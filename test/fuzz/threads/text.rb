# frozen_string_literal: true

module NeverBlockFuzz
  # A plan of strands as Ruby.
  #
  #   Text.new(plan).to_s         # what Stage runs
  #   Text.new(plan).program      # the same to be pasted: pauses order the steps
  class Text
    # The variables that exist from the beginning.
    SETUP = {
      "q1" => "Thread::Queue.new", "q2" => "Thread::Queue.new", "s1" => "Thread::SizedQueue.new(1)", "m1" => "Thread::Mutex.new", "m2" => "Thread::Mutex.new",
      "c1" => "Thread::ConditionVariable.new", "n1" => "Monitor.new"
    }.freeze
    VARIABLE = /\b(?:[a-z]\d+|one|two|three)\b/
    FRAME = File.read(File.join(__dir__, "frame.rb")).freeze
    private_constant :VARIABLE, :FRAME

    # @param plan [Plan]
    def initialize(plan)
      @plan = plan
      @first, *@strands = plan.roots
    end

    # @return [String]
    def to_s
      body = [*@first.body.map { |node| node.args[:code] }, *@strands.flat_map { |strand| lines(strand) }]
      names = body.join("\n").scan(VARIABLE).uniq
      setup, later = names.partition { |name| SETUP.key?(name) }
      [*setup.map { |name| "#{name} = #{SETUP[name]}" }, ("#{later.sort.join(" = ")} = nil" if later.any?), *body].compact.join("\n")
    end

    # @return [Array<Array(Integer, Boolean)>] the number of each step, and whether time alone ends it
    def steps
      nodes = @strands.flat_map { |strand| Plan.new(0, [strand]).nodes.drop(1) }
      nodes.map { |node| [node.id, node.args[:timed] || false] }.sort_by(&:first)
    end

    # @return [String] the name of Hosts for the fibers
    def host = @first.args[:host]

    # @return [String]
    def program = FRAME.sub("# PROGRAM", to_s.gsub("\n", "\n  ")).sub("HOST", host).sub("SECONDS", (steps.last.first * 0.1 + 1).round(1).to_s)

    private

    def lines(strand) = ["#{strand.args[:name]} = strand do", *indent(strand.body.flat_map { |node| step(node) }), "end"]

    def step(node)
      open, close, code = node.args.values_at(:open, :close, :code)
      return ["at(#{node.id}) { #{code} }"] unless open
      ["at(#{node.id}) do", *indent([open, *indent(node.body.flat_map { |inner| step(inner) }), close]), "end"]
    end

    def indent(lines) = lines.map { |line| "  #{line}" }
  end
end
