# frozen_string_literal: true

require "prism"

module Lint
  # The definitions, names and requires of one Ruby file.
  #
  #   file = RubyFile.new("module NeverBlock; class Task; Scope.new; end; end")
  #   file.definitions   # => [["NeverBlock", false], ["NeverBlock::Task", true]]
  #   file.references    # => [[1, "Task", ["NeverBlock"]], [1, "Scope", ["NeverBlock::Task", "NeverBlock"]]]
  #   file.requires      # => []
  class RubyFile < Prism::Visitor
    REQUIRES = %i[require require_relative load].freeze
    SPACES = [Prism::ModuleNode, Prism::ClassNode].freeze
    private_constant :REQUIRES, :SPACES

    # @return [Array<Array(String, Boolean)>] a whole name, and whether it is more than a module around others
    attr_reader :definitions

    # @return [Array<Array(Integer, String, Array<String>)>] line, name as it is written, and the modules around it, innermost first
    attr_reader :references

    # @return [Array<Array(Integer, String, String)>] line, method and path
    attr_reader :requires

    # @param source [String]
    def initialize(source)
      super()
      @definitions = []
      @references = []
      @requires = []
      @nesting = []
      Prism.parse(source).value.accept(self) # StandardRB reports syntax errors
    end

    def visit_module_node(node) = enter(node)

    def visit_class_node(node)
      node.superclass&.accept(self)
      enter(node)
    end

    def visit_constant_write_node(node)
      @definitions << [qualified(node.name.to_s), true]
      super
    end

    def visit_constant_path_write_node(node)
      @definitions << [qualified(node.target.full_name), true]
      super
    end

    def visit_constant_read_node(node) = refer(node, node.name.to_s)

    def visit_constant_path_node(node)
      refer(node, node.full_name)
    rescue Prism::ConstantPathNode::DynamicPartsInConstantPathError # self.class::LIMIT
      super
    end

    def visit_call_node(node)
      path = node.arguments&.arguments&.last
      if path.is_a?(Prism::StringNode) && node.receiver.nil?
        @requires << [node.location.start_line, node.name.to_s, path.unescaped] if REQUIRES.include?(node.name)
        @requires << [node.location.start_line, "require", path.unescaped] if node.name == :autoload
      end
      super
    end

    private

    def enter(node)
      name = node.constant_path.full_name
      full = qualified(name)
      real = !only_modules?(node.body)
      refer(node.constant_path, name) if real
      @definitions << [full, real]
      @nesting.unshift(full)
      node.body&.accept(self)
      @nesting.shift
    end

    # Such a module exists for the definitions inside it.
    def only_modules?(body) = body.is_a?(Prism::StatementsNode) && body.body.all? { |one| SPACES.include?(one.class) }

    def qualified(name) = name.start_with?("::") ? name.delete_prefix("::") : [*@nesting.first, name].join("::")

    def refer(node, name) = @references << [node.location.start_line, name, @nesting.dup]
  end
end
