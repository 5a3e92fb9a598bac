# frozen_string_literal: true

# The same with a thread for each task, and no scheduler.
require_relative "base"

module Workloads
  class Threads < Base
    def spawn(count)
      measure(count) { count.times { Thread.new {}.join } }
    end

    def spawn_burst(count)
      bursts = count / AMONG
      measure(bursts * AMONG) { bursts.times { Array.new(AMONG) { Thread.new {} }.each(&:join) } }
    end

    def yield_alone(count)
      measure(count) { count.times { Thread.pass } }
    end

    def yield_among(count)
      each = count / AMONG
      measure(each * AMONG) do
        Array.new(AMONG) { Thread.new { each.times { Thread.pass } } }.each(&:join)
      end
    end

    private

    def enter = yield

    def start(&) = Thread.new(&)

    def join(task) = task.join

    # Not Thread.pass, which would make a crowd of starting threads take turns.
    def pass = sleep(0.001)
  end
end
