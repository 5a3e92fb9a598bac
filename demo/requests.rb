# frozen_string_literal: true

# The same requests with the same client, stock Net::HTTP, made in three ways:
#
#   requests = Demo::Requests.new(back_end)
#   result = requests.under_neverblock(20, bar)
#   result.seconds, result.right, result.threads     # => 1.01, 20, 1
#
# A way is right when each request brought the answer to that very request.
require "net/http"
require "neverblock"

module Demo
  class Requests
    # The result of one way.
    # asked: requests made; right: those with the right answer; seconds: wall time;
    # cpu: seconds of processor time of this process; threads: Ruby threads that
    # made requests; trouble: the first thing that went wrong, or nil
    Result = Struct.new(:way, :asked, :right, :seconds, :cpu, :threads, :trouble) do
      # @return [Float] seconds the same way would take for so many requests
      def extrapolated(count) = seconds * count / asked

      # @return [Boolean] whether each answer was the right one
      def all_right? = right == asked
    end

    # @param back_end [BackEnd]
    def initialize(back_end)
      @back_end = back_end
    end

    # @param count [Integer] requests
    # @param bar [Bar]
    # @return [Result]
    def one_after_another(count, bar)
      measure("one after another", count, bar) { |request| count.times { |number| request.call(number) } }
    end

    # A thread for each request.
    # @return [Result]
    def with_threads(count, bar)
      measure("a thread for each", count, bar) do |request|
        threads = []
        count.times { |number| threads << Thread.new { request.call(number) } }
        threads.each(&:join)
      ensure
        threads.each(&:kill) # after Ctrl-C, or where the system refused one
      end
    end

    # A fiber for each request, all on the calling thread.
    # @return [Result]
    def under_neverblock(count, bar)
      measure("NeverBlock", count, bar) do |request|
        NeverBlock.run do
          pool = NB::FiberPool.new(count)
          count.times { |number| pool.spawn { request.call(number) } }
        end
      end
    end

    private

    def measure(way, count, bar)
      outcomes = []
      threads = {}
      request = lambda do |number|
        threads[Thread.current] = true
        outcomes << ask(number)
        bar.advance
      end
      cpu, started = cpu_time, now
      trouble = attempt { yield request }
      seconds, cpu = now - started, cpu_time - cpu
      bar.finish
      Result.new(way, count, outcomes.count(:right), seconds, cpu, threads.size,
        trouble || outcomes.find { |outcome| outcome != :right })
    end

    # One request with stock Net::HTTP: :right, or the mistake.
    def ask(number)
      body = Net::HTTP.get(@back_end.uri("/#{number}"))
      (body == "you asked for /#{number}") ? :right : "request #{number} brought #{body.inspect}"
    rescue SystemCallError, SocketError, Timeout::Error, IOError => error
      "request #{number}: #{error.message} (#{error.class})"
    end

    # A system may refuse so many threads; that is a result, not the demo's end.
    def attempt
      yield
      nil
    rescue ThreadError => error
      "#{error.message} (#{error.class})"
    end

    def cpu_time = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
