# frozen_string_literal: true

# The cost of a fiber with stacks of different sizes, as a table for docs/server.md:
#
#   ruby script/stack_memory.rb            # Linux; some seconds
#
# Ruby learns the sizes when it boots, so each row is a process of its own, in which fibers are parked at some depth of
# calls and all are there at once.
require "rbconfig"

# One row's process, and the table.
module StackMemory
  COUNT = 10_000
  DEPTH = 20
  SIZES = [[128, 512], [1_024, 1_024], [1_024, 2_048]].freeze # KiB: Ruby's own, a thread's, stack_depth's

  def self.table
    puts "| VM stack | machine stack | calls deep | memory a fiber | address space a fiber |",
      "| ---: | ---: | ---: | ---: | ---: |"
    SIZES.each do |vm, machine|
      environment = {"RUBY_FIBER_VM_STACK_SIZE" => (vm * 1024).to_s, "RUBY_FIBER_MACHINE_STACK_SIZE" => (machine * 1024).to_s}
      cells = IO.popen(environment, [RbConfig.ruby, __FILE__, "row"], &:read).split
      puts "| #{vm} KiB | #{machine} KiB | #{cells[0]} | #{cells[1]} KB | #{cells[2]} KB |"
    end
  end

  def self.row
    park(DEPTH).resume
    GC.start
    memory, space = usage
    fibers = Array.new(COUNT) { park(DEPTH) }
    used, spaced = usage
    puts deepest, ((used - memory) / COUNT.to_f).round(1), (spaced - space) / COUNT
    fibers.each(&:resume)
  end

  def self.park(depth) = Fiber.new { down(depth) { Fiber.yield } }.tap(&:resume)

  def self.down(depth, &block) = depth.zero? ? block.call : down(depth - 1, &block)

  # How many plain methods a fiber can call one inside the other.
  def self.deepest
    (100..40_000).bsearch { |depth| !reaches?(depth) } - 1
  end

  def self.reaches?(depth)
    Fiber.new { plain(depth) }.resume
    true
  rescue SystemStackError
    false
  end

  def self.plain(depth) = depth.zero? ? 0 : 1 + plain(depth - 1)

  # @return [Array(Integer, Integer)] KB of memory, KB of address space
  def self.usage
    [File.read("/proc/self/smaps_rollup")[/^Pss:\s+(\d+)/, 1], File.read("/proc/self/status")[/^VmSize:\s+(\d+)/, 1]].map(&:to_i)
  end
end

(ARGV.first == "row") ? StackMemory.row : StackMemory.table
