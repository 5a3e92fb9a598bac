# frozen_string_literal: true

# System calls per operation, counted by strace in a pass of its own, since it makes
# everything slow: two runs with different numbers of operations, whose difference
# leaves out start-up and end.
#
#   calls = Bench::SystemCalls.new("runtime/child.rb", contestant, "queue_hop")
#   calls.per_operation(1000)      # => {"epoll_wait"=>0.5, "read"=>2.0}
require "tempfile"
require_relative "child_process"

module Bench
  class SystemCalls
    NOISE = 0.02 # calls per operation; below that they belong to start-up

    # @return [Boolean] whether strace is there and may trace
    def self.available?
      return @available if defined?(@available)
      @available = system("strace", "-c", "-o", File::NULL, "true", out: File::NULL, err: File::NULL) || false
    end

    # Lines such as " 12.30    0.000042           2        21         3 epoll_wait".
    # @param summary [String] of strace -c
    # @return [Hash{String=>Integer}] calls by name
    def self.parse(summary)
      summary.scan(/^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+(\w+)$/).to_h { |number, name| [name, number.to_i] }
        .except("total")
    end

    # @param script [String] below benchmark/
    # @param contestant [Contestant]
    # @param workload [String]
    def initialize(script, contestant, workload)
      @script = script
      @contestant = contestant
      @workload = workload
    end

    # @param count [Integer] operations of the shorter run
    # @return [Hash{String=>Float}] by name
    # @raise [Failure]
    def per_operation(count)
      short = calls(count)
      long = calls(count * 3)
      long.to_h { |name, number| [name, (number - short.fetch(name, 0)).fdiv(count * 2)] }
        .select { |_, number| number > NOISE }
    end

    private

    def calls(count)
      Tempfile.create("strace") do |summary|
        wrapper = ["strace", "-f", "-c", "-o", summary.path]
        ChildProcess.new(@script, @contestant, @workload, wrapper:, operations: count).measure
        self.class.parse(File.read(summary.path))
      end
    end
  end
end
