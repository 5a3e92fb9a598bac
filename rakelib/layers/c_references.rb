# frozen_string_literal: true

module Lint
  # The #include lines of C files.
  #
  #   CReferences.new("ext/neverblock", part).to_a
  #   # => [["scheduler/scheduler.h", 7, "#include \"../engine/engine.h\"", "engine"], …]
  class CReferences
    include Enumerable

    INCLUDE = /^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]/
    private_constant :INCLUDE

    # @param folder [String]
    # @param part [Layers::Part]
    def initialize(folder, part)
      @folder = folder
      @part = part
      @paths = Dir.glob("**/*.{c,h}", base: folder).sort
    end

    # @yieldparam path [String] of the file, below the folder
    # @yieldparam line [Integer]
    # @yieldparam text [String] the reference
    # @yieldparam layer [String, nil] that it leads to; nil: to none of the table
    def each
      @paths.each do |path|
        yield path, 1, "", nil # a file without references has a layer as well
        without_comments(File.read(File.join(@folder, path))).each_line.with_index(1) do |text, line|
          yield path, line, text.strip, layer(path, $1) if text =~ INCLUDE
        end
      end
    end

    private

    def without_comments(source) = source.gsub(%r{/\*.*?\*/}m) { |comment| "\n" * comment.count("\n") }

    # A header of ours is named from where the file is, from the top, or by its name alone (-I).
    def layer(path, header)
      beside = File.expand_path(header, "/#{File.dirname(path)}").delete_prefix("/")
      ours = [beside, header].find { |one| @paths.include?(one) } || @paths.find { |one| File.basename(one) == header }
      ours ? @part.layer_of_path(ours) : @part.layer_of_foreign("headers", header)
    end
  end
end
