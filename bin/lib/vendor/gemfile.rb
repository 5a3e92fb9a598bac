# frozen_string_literal: true

require "prism"
require_relative "refused"

module Vendor
  # A Gemfile's line for a gem with a path: added, or changed where there is one.
  #
  #   Gemfile.new(%(gem "neverblock", "~> 0.1", require: false\n)).with("neverblock", "vendor/gems/neverblock")
  #   # => %(gem "neverblock", path: "vendor/gems/neverblock", require: false\n)
  class Gemfile
    # Where Bundler takes a gem from. With `path:` there can be none of the others.
    SOURCES = %w[path git github gist bitbucket branch tag ref glob submodules source].freeze

    # @param text [String]
    def initialize(text)
      @text = text
    end

    # @return [String] the new text; all but the gem's line is as it was
    # @raise [Refused]
    def with(name, path)
      calls = calls_of(name)
      if calls.size > 1
        raise Refused, "The Gemfile has #{name} #{calls.size} times, in the lines " \
          "#{calls.map { |call| call.location.start_line }.join(", ")}.\nLeave one of them"
      end
      calls.any? ? change(calls.first, path) : add(name, path)
    end

    private

    def add(name, path) = "#{@text}#{"\n" unless @text.empty? || @text.end_with?("\n")}\ngem #{name.inspect}, path: #{path.inspect}\n"

    # Versions and other sources go; the rest, such as `require: false`, stays.
    def change(call, path)
      name, *others = call.arguments.arguments
      options = others.grep(Prism::KeywordHashNode).flat_map(&:elements).reject { |option| source?(option) }
      words = [name.slice, "path: #{path.inspect}", *options.map(&:slice)].join(", ")
      @text.byteslice(0, name.location.start_offset) + words + @text.byteslice(call.arguments.location.end_offset..)
    end

    def source?(option)
      option.is_a?(Prism::AssocNode) && option.key.is_a?(Prism::SymbolNode) && SOURCES.include?(option.key.unescaped)
    end

    def calls_of(name)
      result = Prism.parse(@text)
      if result.failure?
        error = result.errors.first
        raise Refused, "The Gemfile is not valid Ruby: line #{error.location.start_line}: #{error.message}.\nCorrect it first"
      end
      search(result.value, name)
    end

    def search(node, name, blocks = [])
      return [] unless node
      return node.compact_child_nodes.flat_map { |child| search(child, name, blocks) } unless node.is_a?(Prism::CallNode)
      return [checked(node, blocks)] if gem?(node, name)
      inner = node.block ? [*blocks, node.name.to_s] : blocks
      node.compact_child_nodes.flat_map { |child| search(child, name, inner) }
    end

    def gem?(call, name)
      first = call.arguments&.arguments&.first
      call.name == :gem && call.receiver.nil? && first.is_a?(Prism::StringNode) && first.unescaped == name
    end

    def checked(call, blocks)
      block = blocks.find { |word| SOURCES.include?(word) } or return call
      raise Refused, "The Gemfile's line #{call.location.start_line} is in a block of `#{block}`, and so has a source already.\n" \
        "Move the line out of the block"
    end
  end
end
