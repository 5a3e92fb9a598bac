# frozen_string_literal: true

# System calls of processes that run, counted from here on.
#
#   strace = Bench::Strace.new([4711])
#   strace.attach
#   work
#   strace.detach      # => {"epoll_wait"=>21, "read"=>400}
require "tempfile"
require_relative "system_calls"

module Bench
  class Strace
    # @param pids [Array<Integer>] with all their threads
    # @param wrapper [Array<String>] a command that runs strace, such as taskset
    def initialize(pids, wrapper: [])
      @pids = pids
      @wrapper = wrapper
    end

    # Returns when it counts.
    # @return [void]
    def attach
      @summary = Tempfile.new("strace")
      @said, said = IO.pipe
      processes = @pids.flat_map { |pid| ["-p", pid.to_s] }
      @strace = Process.spawn(*@wrapper, "strace", "-f", "-c", "-o", @summary.path, *processes, in: File::NULL, out: said, err: said)
      said.close
      # One line for each process; that the last one is attached is what matters.
      @pids.size.times { @said.gets }
    end

    # @return [Hash{String=>Integer}] calls by name since it was attached; empty where it was not
    def detach
      return {} unless @strace
      Process.kill(:INT, @strace)
      Process.wait(@strace)
      SystemCalls.parse(@summary.read)
    ensure
      @strace = nil
      [@said, @summary].each { |file| file&.close }
      @summary&.unlink
    end
  end
end
