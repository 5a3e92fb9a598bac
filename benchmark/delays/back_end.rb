# frozen_string_literal: true

# The back end of the delays benchmark as a process of its own: compiled from
# back_end.c where that is needed, ended with the block.
#
#   Bench::BackEnd.open do |back_end|
#     back_end.watch([pid])
#     back_end.stats["requests"]
#   end
require "fileutils"
require "json"
require "net/http"
require "rbconfig"
require_relative "../bench/failure"
require_relative "../bench/load_path"

module Bench
  class BackEnd
    SOURCE = File.join(__dir__, "back_end.c")
    PROGRAM = File.join(LoadPath::ROOT, "tmp", "bench", "back_end")

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
      compile unless File.exist?(PROGRAM) && File.mtime(PROGRAM) > File.mtime(SOURCE)
      input, @lifeline = IO.pipe
      output, port = IO.pipe
      @pid = Process.spawn(PROGRAM, in: input, out: port, pgroup: true)
      [input, port].each(&:close)
      @port = Integer(output.gets || raise(Failure, "the back end ended at once: its message is above"))
      output.close
    end

    # Forgets what was counted, and watches the processor time of these processes.
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

    def compile
      raise Failure, "The delays benchmark needs Linux: its back end is written on epoll." unless RUBY_PLATFORM.include?("linux")
      FileUtils.mkdir_p(File.dirname(PROGRAM))
      system(RbConfig::CONFIG["CC"].split.first, "-O2", "-Wall", "-o", PROGRAM, SOURCE) or
        raise Failure, "The back end of the delays benchmark could not be compiled: the compiler's message is above."
    end
  end
end
