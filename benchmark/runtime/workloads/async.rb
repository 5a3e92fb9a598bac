# frozen_string_literal: true

# The same, in the words of async's users.
require "async"
require_relative "base"
require_relative "hooks"

module Workloads
  class Async < Base
    include Hooks

    def engine
      wanted = ENV["IO_EVENT_SELECTOR"]
      selector = IO::Event::Selector.default.name
      raise "IO_EVENT_SELECTOR=#{wanted} gave #{selector}: io-event was built without it" if wanted && !selector.end_with?(wanted)
      selector
    end

    def spawn(count)
      enter { |task| measure(count) { count.times { task.async {}.wait } } }
    end

    def spawn_value(count)
      enter { measure(count) { count.times { Async() {}.wait } } }
    end

    def spawn_burst(count)
      enter do |task|
        bursts = count / AMONG
        measure(bursts * AMONG) { bursts.times { Array.new(AMONG) { task.async {} }.each(&:wait) } }
      end
    end

    def yield_alone(count)
      enter do
        scheduler = Fiber.scheduler
        measure(count) { count.times { scheduler.yield } }
      end
    end

    def yield_among(count)
      each = count / AMONG
      enter do |task|
        scheduler = Fiber.scheduler
        measure(each * AMONG) do
          Array.new(AMONG) { task.async { each.times { scheduler.yield } } }.each(&:wait)
        end
      end
    end

    def own_timeout(count)
      enter { |task| measure(count) { count.times { task.with_timeout(PATIENCE) {} } } }
    end

    def empty_run(count)
      Async() {}
      measure(count) { count.times { Async() {} } }
    end

    private

    def enter
      Async() { |task| yield @task = task }.wait
    end

    def start(&) = @task.async(&)

    def join(task) = task.wait

    def pass = Fiber.scheduler.yield
  end
end
