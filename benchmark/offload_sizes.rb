# frozen_string_literal: true

# From which size on it pays to hand core's long operations over to a thread, as a table for docs/benchmarks/offload_sizes.md:
#
#   ruby -Ilib benchmark/offload_sizes.rb     # half a minute
#
# In place an operation holds the loop. On a thread it costs a hand-over, there and back, and the thread takes turns with
# the loop at the interpreter's lock. The limits that follow from it are in lib/neverblock/patches/zlib.rb.
require "neverblock"
require "tempfile"
require "zlib"
require_relative "bench/machine"

# One row for each operation and size.
module OffloadSizes
  KIB = 1_024
  ROUNDS = 9
  SECONDS = 0.02 # that a round takes at least
  # Text as it is: the documentation, over and over. The window of deflate is shorter than it.
  TEXT = Dir[File.join(Bench::LoadPath::ROOT, "{docs/*.md,lib/**/*.rb}")].sort.map { |path| File.read(path) }.join.b.freeze

  module_function

  def text(size) = (TEXT * size.fdiv(TEXT.bytesize).ceil).byteslice(0, size)

  def table
    Bench::Machine.describe.except("peers", "open files", "vm.max_map_count").each { |name, value| puts "- #{name}: #{value}" }
    puts "", "| operation | size | in place | on a thread | the hand-over |", "| --- | ---: | ---: | ---: | ---: |"
    NeverBlock.run(patches: false) { operations.each { |name, sizes, operation| sizes.each { |size| row(name, size, operation.call(size)) } } }
  end

  # @return [Array<Array>] name, sizes in bytes, and what makes a callable for a size
  def operations
    small, large = [2, 8, 32, 64, 128, 512].map { |size| size * KIB }, [1, 4, 16, 64].map { |size| size * KIB * KIB }
    [
      *[1, 6, 9].map { |level| ["`Zlib.deflate`, level #{level}: text", small, ->(size) { text(size).then { |source| -> { Zlib.deflate(source, level) } } }] },
      ["`Zlib.deflate`: zeros", small, ->(size) { ("\0" * size).then { |source| -> { Zlib.deflate(source) } } }],
      ["`Zlib.inflate` to text of", small, ->(size) { Zlib.deflate(text(size)).then { |source| -> { Zlib.inflate(source) } } }],
      ["`Zlib.inflate` to zeros of", small, ->(size) { Zlib.deflate("\0" * size).then { |source| -> { Zlib.inflate(source) } } }],
      ["`Zlib.gunzip` to text of", small, ->(size) { Zlib.gzip(text(size)).then { |source| -> { Zlib.gunzip(source) } } }],
      ["`IO::Buffer#copy`", large, ->(size) { Array.new(2) { IO::Buffer.new(size) }.then { |to, from| -> { to.copy(from) } } }],
      ["`IO.copy_stream`, files in memory", small + large.first(2), method(:copying)],
      ["`File.open` and `close`", [0], ->(_) { -> { File.open(__FILE__) {} } }]
    ]
  end

  def copying(size)
    from, to = Array.new(2) { Tempfile.new }
    from.write(text(size))
    from.flush
    -> { to.path && IO.copy_stream(from.path, to.path) }
  end

  def row(name, size, operation)
    places = [-> { Fiber.blocking { operation.call } }, -> { NeverBlock::ThreadPool.operations.call(leave: :at_end) { operation.call } }]
    times = Array.new(ROUNDS) { places.map { |place| measure(&place) } }.transpose
    here, there = times.map { |rounds| rounds.sort[ROUNDS / 2] }
    puts "| #{name} | #{words(size)} | #{micro(here)} | #{micro(there)} | #{((there / here - 1) * 100).round} % |"
  end

  # @return [Float] seconds of the processor for one call
  def measure(clock: Process::CLOCK_PROCESS_CPUTIME_ID)
    count = 0
    begun = Process.clock_gettime(clock)
    while (taken = Process.clock_gettime(clock) - begun) < SECONDS
      yield
      count += 1
    end
    taken / count
  end

  def words(size)
    return "" if size.zero?
    (size < KIB * KIB) ? "#{size / KIB} KiB" : "#{size / KIB / KIB} MiB"
  end

  def micro(seconds) = "#{(seconds * 1_000_000).round} µs"
end

OffloadSizes.table
