# frozen_string_literal: true

require_relative "ruby_file"

module Lint
  # The constants that Ruby files name, and the files that they require.
  #
  #   RubyReferences.new("lib", part).to_a
  #   # => [["neverblock/cli.rb", 3, "require_relative \"version\"", "runtime"], …]
  #
  # A constant is looked for as Ruby does, in the modules around it, among those that the folder defines. It belongs to the
  # layer of the file that defines it. Where several do, that of its name decides, or the lowest of their layers.
  class RubyReferences
    include Enumerable

    # @param folder [String]
    # @param part [Layers::Part]
    def initialize(folder, part)
      @part = part
      @files = Dir.glob("**/*.rb", base: folder).sort.to_h { |path| [path, RubyFile.new(File.read(File.join(folder, path)))] }
      @defined = layers_of_constants
    end

    # @yieldparam path [String] of the file, below the folder
    # @yieldparam line [Integer]
    # @yieldparam text [String] the reference
    # @yieldparam layer [String, nil] that it leads to; nil: to none of the table
    def each
      @files.each do |path, file|
        yield path, 1, "", nil # a file without references has a layer as well
        file.references.each { |line, name, nesting| yield path, line, resolve(name, nesting), layer_of_constant(resolve(name, nesting)) }
        file.requires.each { |line, method, required| yield path, line, "#{method} #{required.inspect}", layer_of_file(path, method, required) }
      end
    end

    private

    # @return [Hash{String => String, nil}] nil for modules around others that are of layers which do not know one another
    def layers_of_constants
      found = @files.flat_map { |path, file| file.definitions.map { |name, real| [name, real, path] } }
      found.group_by(&:first).to_h do |name, all|
        real = all.select { |_, itself, _| itself }
        paths = (real.empty? ? all : real).map(&:last)
        paths = [paths.find { |path| named_after?(path, name) } || paths].flatten
        [name, @part.lowest(paths.filter_map { |path| @part.layer_of_path(path) }.uniq)]
      end
    end

    # NeverBlock::FiberPool and neverblock/fiber_pool.rb
    def named_after?(path, name) = path.delete("_").delete_suffix(".rb") == name.gsub("::", "/").downcase

    # @return [String] the whole name, if its first part is one of ours
    def resolve(name, nesting)
      return name.delete_prefix("::") if name.start_with?("::")
      head = name[/\A\w+/]
      around = nesting.find { |one| @defined.key?("#{one}::#{head}") }
      around ? "#{around}::#{name}" : name
    end

    # Definitions in C belong to the module that they are in.
    def layer_of_constant(name)
      parts = name.split("::")
      parts.size.downto(1).each { |count| @defined[parts.first(count).join("::")]&.then { |layer| return layer } }
      @part.layer_of_foreign("constants", name, "::")
    end

    def layer_of_file(path, method, required)
      ours = (method == "require_relative") ? File.expand_path(required, "/#{File.dirname(path)}").delete_prefix("/") : required
      @files.key?("#{ours.delete_suffix(".rb")}.rb") ? @part.layer_of_path("#{ours.delete_suffix(".rb")}.rb") : @part.layer_of_foreign("requires", required)
    end
  end
end
