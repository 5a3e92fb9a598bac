# frozen_string_literal: true

module NeverBlockFuzz
  # A random program as a tree of operations. The same seed gives the same tree.
  #
  #   plan = Generator.new(7).plan
  #   puts plan                      # one line per operation, indented
  #   plan.without([12, 15])         # the same program with two operations left out
  class Plan
    # One operation: its number, its name, its arguments, and the operations inside it.
    Node = Struct.new(:id, :op, :args, :body) do
      # @return [String] one line
      def title
        facts = args.map { |key, value| "#{key}=#{value.is_a?(Symbol) ? value : value.inspect}" }
        ["#{id}.", op, *facts].join(" ")
      end
    end

    # @return [Integer]
    attr_reader :seed

    # @return [Array<Node>] one for each loop, each of the operation :root
    attr_reader :roots

    # @param seed [Integer]
    # @param roots [Array<Node>]
    def initialize(seed, roots)
      @seed = seed
      @roots = roots
    end

    # @return [Array<Node>] all operations, parents first
    def nodes = @roots.flat_map { |root| descendants(root) }

    # @param ids [Array<Integer>]
    # @return [Plan] a copy without these operations and those inside them
    def without(ids) = Plan.new(@seed, prune(@roots, ids))

    # @return [Boolean] whether an operation has one of these names
    def uses?(*names) = nodes.any? { |node| names.include?(node.op) }

    # @return [String]
    def to_s = @roots.flat_map { |root| lines(root, 0) }.join("\n")

    private

    def descendants(node) = [node, *node.body.flat_map { |inner| descendants(inner) }]

    def prune(nodes, ids)
      nodes.reject { |node| ids.include?(node.id) }.map { |node| Node.new(node.id, node.op, node.args, prune(node.body, ids)) }
    end

    def lines(node, depth) = ["#{"  " * depth}#{node.title}", *node.body.flat_map { |inner| lines(inner, depth + 1) }]
  end
end
