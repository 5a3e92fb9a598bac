# frozen_string_literal: true

# Core's long operations, and the sizes at which they are measured.
#
#   operation = Measured::Operations::ALL.fetch("inflate")
#   operation.make.call(2_048).call      # inflates to 2 KiB of text
require "tempfile"
require "zlib"

module Measured
  module Operations
    # make: what makes a callable for a size.
    Operation = Data.define(:title, :sizes, :make)

    KIB = 1_024
    SMALL = [2, 8, 32, 64, 128, 512].map { |size| size * KIB }.freeze
    LARGE = [1, 4, 16, 64].map { |size| size * KIB * KIB }.freeze

    # Text as it is: the documentation, over and over. The window of deflate is shorter than it.
    def self.text(size)
      @text ||= Dir[File.expand_path("../../{docs/*.md,lib/**/*.rb}", __dir__)].sort.map { |path| File.read(path) }.join.b.freeze
      (@text * size.fdiv(@text.bytesize).ceil).byteslice(0, size)
    end

    def self.zeros(size) = "\0" * size

    # Between two files in memory.
    def self.copying(size)
      from, to = Array.new(2) { Tempfile.new }
      from.write(text(size))
      from.flush
      -> { to.path && IO.copy_stream(from.path, to.path) }
    end

    ALL = {
      **[1, 6, 9].to_h { |level| ["deflate_#{level}", Operation.new("`Zlib.deflate`, level #{level}: text", SMALL, ->(size) { text(size).then { |source| -> { Zlib.deflate(source, level) } } })] },
      "deflate_zeros" => Operation.new("`Zlib.deflate`: zeros", SMALL, ->(size) { zeros(size).then { |source| -> { Zlib.deflate(source) } } }),
      "inflate" => Operation.new("`Zlib.inflate` to text of", SMALL, ->(size) { Zlib.deflate(text(size)).then { |source| -> { Zlib.inflate(source) } } }),
      "inflate_zeros" => Operation.new("`Zlib.inflate` to zeros of", SMALL, ->(size) { Zlib.deflate(zeros(size)).then { |source| -> { Zlib.inflate(source) } } }),
      "gunzip" => Operation.new("`Zlib.gunzip` to text of", SMALL, ->(size) { Zlib.gzip(text(size)).then { |source| -> { Zlib.gunzip(source) } } }),
      "buffer_copy" => Operation.new("`IO::Buffer#copy`", LARGE, ->(size) { Array.new(2) { IO::Buffer.new(size) }.then { |to, from| -> { to.copy(from) } } }),
      "copy_stream" => Operation.new("`IO.copy_stream`, files in memory", SMALL + LARGE.first(2), method(:copying)),
      "open" => Operation.new("`File.open` and `close`", [0], ->(_) { -> { File.open(__FILE__) {} } })
    }.freeze
  end
end
