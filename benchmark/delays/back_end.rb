# frozen_string_literal: true

# The back end of the delays benchmark as a process of its own: compiled from
# back_end.c where that is needed, ended with the block.
#
#   Bench::BackEnd.open do |back_end|
#     back_end.watch([pid])
#     back_end.stats["requests"]
#   end
require "json"
require "net/http"
require_relative "../bench/c_program"
require_relative "../bench/failure"

module Bench
  class BackEnd
    SOURCE = File.join(__dir__, "back_end.c")

    # @yieldparam back_end [BackEnd]
    # @return [Object] the block's value
    # @raise [Failure] where it cannot be compiled or started
    def self.open
      back_end = new
      yield back_end
    ensure
      back_end&.close
    end

    # @return [Integer]
    attr_reader :port

    def initialize
      input, @lifeline = IO.pipe
      output, port = IO.pipe
      @pid = Process.spawn(CProgram.path(SOURCE), in: input, out: port, pgroup: true)
      [input, port].each(&:close)
      @port = Integer(output.gets || raise(Failure, "the back end ended at once: its message is above"))
      output.close
    end

    # Resets the counters, and watches the processor time of these processes.
    # @param pids [Array<Integer>] the client with `?client=0` in its requests first
    def watch(pids) = get("/watch?pid=#{pids.join(",")}")

    # @return [Hash{String=>Object}] since #watch: requests, most_open connections at
    #   once, cpu of the back end, and client_cpu when each client's latest request
    #   was read; times in nanoseconds
    def stats = JSON.parse(get("/stats"))

    # Ends it.
    def close
      @lifeline.close
      Process.wait(@pid)
    end

    private

    def get(target) = Net::HTTP.get(URI("http://127.0.0.1:#{@port}#{target}"))
  end
end
