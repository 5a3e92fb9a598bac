# frozen_string_literal: true

# What is the same for every library: stock Ruby calls, made inside its loop.
#
#   class Workloads::Threads < Workloads::Base ... end
#   Workloads::Threads.new(meter).queue_hop(1000)
#   meter.reading
#
# A subclass says how to enter its loop, to start something concurrent there, to
# join that and to let others go on. What is measured never goes through these four
# inside its innermost loop.
require "socket"
require "timeout"

module Workloads
  class Base
    MESSAGE = "x" * 64
    AMONG = 100
    PATIENCE = 10 # seconds of a timeout that never expires

    # @param meter [Bench::Meter]
    def initialize(meter)
      @meter = meter
    end

    # @return [String] which engine does the work, as the library says
    def engine = "none"

    # Kernel#sleep with nothing to wait for.
    def sleep_zero(count)
      enter { measure(count) { count.times { sleep(0) } } }
    end

    # A value handed to another task through a Queue; two hops are one there and back.
    def queue_hop(count)
      there = Queue.new
      back = Queue.new
      rounds = count / 2
      enter do
        echo = start { rounds.times { back << there.pop } }
        measure(rounds * 2) { rounds.times { (there << 1) && back.pop } }
        join(echo)
      end
    end

    # 64 bytes to another task over a UNIX socket and back, by stock IO.
    def socket_round_trip(count)
      left, right = UNIXSocket.pair
      enter do
        echo = start do
          buffer = +""
          count.times { right.write(right.readpartial(64, buffer)) }
        end
        buffer = +""
        measure(count) { count.times { left.write(MESSAGE) && left.readpartial(64, buffer) } }
        join(echo)
      end
    ensure
      [left, right].each(&:close)
    end

    # Timeout.timeout around nothing: set and cancelled.
    def timeout(count)
      enter { measure(count) { count.times { Timeout.timeout(PATIENCE) {} } } }
    end

    # So many tasks at once, all waiting on one Queue, then all woken: from the first
    # spawn to the last join. Memory is what was added when all were parked.
    def parked(count)
      queue = Queue.new
      enter do
        measure(count) do
          memory = Bench::Meter.memory
          tasks = Array.new(count) { start { queue.pop } }
          pass until queue.num_waiting == count
          @memory = (Bench::Meter.memory - memory).fdiv(count)
          count.times { queue << 1 }
          tasks.each { |task| join(task) }
        end
      end
      @meter.note(memory: @memory)
    end

    private

    def measure(count, &) = @meter.measure(count, &)
  end
end
