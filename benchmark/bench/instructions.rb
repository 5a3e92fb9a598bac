# frozen_string_literal: true

# Instructions of the processor per operation, counted by valgrind in a pass of its own. The kernel's are left out. The
# count is nearly the same in each run, on a busy machine too, so small differences between two checkouts show.
#
#   Bench::Instructions.new("runtime/child.rb", contestant, "queue_hop").per_operation(1000)      # => 5243.5
require "tempfile"
require_relative "child_process"
require_relative "failure"

module Bench
  class Instructions
    # @return [Boolean] whether valgrind is there
    def self.available? = @available ||= system("valgrind", "--version", out: File::NULL, err: File::NULL) || false

    # @param script [String] below benchmark/
    # @param contestant [Contestant]
    # @param workload [String]
    def initialize(script, contestant, workload)
      @script = script
      @contestant = contestant
      @workload = workload
    end

    # Two runs, whose difference leaves out start-up and end.
    # @param count [Integer] operations of the shorter run
    # @return [Float]
    # @raise [Failure]
    def per_operation(count) = (counted(count * 6) - counted(count)).fdiv(count * 5)

    private

    def counted(count)
      Tempfile.create("valgrind") do |log|
        wrapper = ["valgrind", "--tool=callgrind", "--callgrind-out-file=#{File::NULL}", "--log-file=#{log.path}"]
        ChildProcess.new(@script, @contestant, @workload, wrapper:, operations: count).measure
        File.read(log.path)[/Collected : (\d+)/, 1]&.to_i or raise Failure, "valgrind counted nothing for #{@workload}, #{@contestant}."
      end
    end
  end
end
