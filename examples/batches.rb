# frozen_string_literal: true

# Gathers lines into batches, as one does before writing to a database: a batch is
# written when it is full, or when no line has come for a while.
#
#   tail -f some.log | bin/ruby examples/batches.rb --size 100 --wait 0.5
#
# The producer reads standard input into a bounded queue. When the consumers fall
# behind, the queue is full and the producer waits, so that memory stays bounded.
require "neverblock"
require "optparse"

class Batches
  # @param size [Integer] lines in a full batch
  # @param wait [Float] seconds after which one that is not full is written
  # @param consumers [Integer]
  # @yieldparam lines [Array<String>] a batch, to be written
  def initialize(size:, wait:, consumers: 1, &write)
    @size = size
    @wait = wait
    @consumers = consumers
    @write = write
    @queue = SizedQueue.new(size * consumers)
  end

  # @param lines [Enumerable<String>] read until it ends
  # @return [Integer] how many lines were written
  def call(lines)
    NeverBlock.run do |scope|
      tasks = Array.new(@consumers) { |number| scope.spawn(name: "consumer #{number}") { consume } }
      lines.each { |line| @queue.push(line) }
      @queue.close # consumers empty it, then pop returns nil
      tasks.sum(&:value)
    end
  end

  private

  def consume
    written = 0
    until @queue.closed? && @queue.empty?
      batch = gather
      next if batch.empty?
      @write.call(batch)
      written += batch.size
    end
    written
  end

  def gather
    batch = []
    while batch.size < @size && (line = @queue.pop(timeout: @wait))
      batch << line
    end
    batch
  end
end

options = {size: 10, wait: 0.5, consumers: 1}
OptionParser.new do |parser|
  parser.banner = "Usage: batches.rb [options] < lines"
  parser.on("--size LINES", Integer, "lines in a full batch (10)") { |size| options[:size] = size }
  parser.on("--wait SECONDS", Float, "until one that is not full is written (0.5)") { |wait| options[:wait] = wait }
  parser.on("--consumers COUNT", Integer, "how many gather at a time (1)") { |count| options[:consumers] = count }
end.parse!

$stdout.sync = true
batches = Batches.new(**options) { |lines| puts "wrote #{lines.size}: #{lines.first}..#{lines.last}" }
puts "#{batches.call($stdin.each_line(chomp: true))} lines in all"
